// The twin of deploy/metrics.py and of the percentiles in deploy/singlestream.py and deploy/noise.py.

/** Counts of (true class, predicted class) over pixels; ignored ones count nowhere. */
export class ConfusionMatrix {
  constructor(classes, ignoreIndex) {
    this.classes = classes;
    this.ignoreIndex = ignoreIndex;
    this.counts = new Float64Array(classes * classes);
  }

  /** Two label maps of one size; throws where a label is no class. */
  update(prediction, truth) {
    if (prediction.length !== truth.length) throw new Error("prediction and mask differ in size");
    for (let i = 0; i < truth.length; i++) {
      if (truth[i] === this.ignoreIndex) continue;
      if (truth[i] >= this.classes || prediction[i] >= this.classes) throw new Error("an undeclared class id");
      this.counts[truth[i] * this.classes + prediction[i]]++;
    }
  }

  /** Intersection over union by class; null for a class that is in neither. */
  iou() {
    const n = this.classes;
    return Array.from({ length: n }, (_, c) => {
      let row = 0, column = 0;
      for (let k = 0; k < n; k++) { row += this.counts[c * n + k]; column += this.counts[k * n + c]; }
      const hit = this.counts[c * n + c], union = row + column - hit;
      return union ? hit / union : null;
    });
  }

  /** Mean over the classes that occur; null if there is none. */
  miou() {
    const present = this.iou().filter((value) => value !== null);
    return present.length ? mean(present) : null;
  }

  /** Share of counted pixels that are right; null if there is none. */
  pixelAccuracy() {
    const total = this.counts.reduce((a, b) => a + b, 0);
    let right = 0;
    for (let c = 0; c < this.classes; c++) right += this.counts[c * this.classes + c];
    return total ? right / total : null;
  }
}

export function mean(values) { return values.reduce((a, b) => a + b, 0) / values.length; }

/** Percentile with linear interpolation, as numpy's. */
export function percentile(values, percent) {
  const sorted = Float64Array.from(values).sort(), at = (percent / 100) * (sorted.length - 1);
  const below = Math.floor(at), above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (at - below);
}

export const median = (values) => percentile(values, 50);

/** Mean difference of values that follow each other. */
export function jitter(values) {
  const steps = values.slice(1).map((value, i) => Math.abs(value - values[i]));
  return steps.length ? mean(steps) : 0;
}

/** Whether the machine was quiet, as far as a browser can tell: {noisy, why, spread, others_cpu, clock_jump_s}. */
export function judge(times, clockJump) {
  const size = Math.floor(times.length / 4), why = [];
  const medians = size < 5 ? [] : [0, 1, 2, 3].map((part) => median(times.slice(part * size, (part + 1) * size)));
  const spread = medians.length ? Math.max(...medians) / Math.min(...medians) - 1 : null;
  if (spread > 0.05) why.push(`parts of the run differ by ${(100 * spread).toFixed(0)} %`);
  const sorted = Float64Array.from(times).sort();
  if (sorted[Math.floor((9 * sorted.length) / 10)] > 1.5 * median(times))
    why.push("one frame in ten took more than 1.5 times the median");
  if (Math.abs(clockJump) > 1) why.push(`the clock was set or the machine slept (${clockJump.toFixed(0)} s)`);
  return { noisy: why.length > 0, why, spread, others_cpu: null, clock_jump_s: clockJump };
}
