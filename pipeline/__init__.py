"""edgeseg's training side: data, models, training, evaluation (torch)."""
