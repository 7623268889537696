"""A bundle of a base and its domains: each built, compared and gated by itself, then put together.

Refuses to know the command line, and how tensors are shared (`export/packs.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from deploy.bundle import Bundle, write_bundle
from deploy.errors import InputError
from deploy.files import sha256_file
from deploy.manifest import BASE_DATA, Domain, Golden, require_domain_name
from export.assemble import Attempt, new_folder, prove
from export.order import Order
from export.package import GOLDEN_FILE
from export.record import to_bytes
from export.source import Source
from export.targets import Pack
from pipeline.artifact import DONE, Stage

BASE = "base"


def assemble_domains(order: Order, domains: Mapping[str, Order], stage: Stage, out: Path) -> Bundle:
    """Build the bundle in the folder `out`; an older one there is replaced at the very end.

    Args:
        order: of the base. domains: those of the domains, by name. stage: its record, kept in the bundle.

    Raises:
        GateError, InputError: as `export.assemble.prove`; nothing is written.
    """
    with TemporaryDirectory(prefix="edgeseg-") as scratch:
        name = out.resolve().name
        base = prove(replace(order, pack=Pack(BASE, {})), name, new_folder(scratch, BASE))
        shared = {path: source for path, source in base.files.items() if isinstance(source, Path)}
        contents, packs, digest = dict(base.files), {}, sha256_file(shared[BASE_DATA])
        for domain, each in domains.items():
            part = replace(each, pack=Pack(domain, shared))
            found = prove(part, f"{name}+{domain}", new_folder(scratch, domain))
            packs[domain], files = _pack(domain, found, digest)
            contents |= files
        manifest = replace(base.manifest, domains=packs)
        return write_bundle(out, manifest, {**contents, DONE: to_bytes(stage)})


def require_domain(name: str, source: Source, base: Source) -> None:
    """Raise InputError unless the checkpoint is a domain of that very base, and the name can be a file's."""
    require_domain_name(name, "--domain")
    of = source.meta.base
    if not of:
        fix = f"adapt it to the domain: python -m pipeline adapt --checkpoint {base.name} ..."
        raise InputError(f"--domain {name}: {source.name}", "a whole model", f"a domain of {base.name}", fix)
    if of["sha256"] != base.sha256:
        got = f"a domain of {of['name']}, {of['sha256'][:12]}"
        expected = f"of {base.name}, {base.sha256[:12]}"
        raise InputError(f"--domain {name}: {source.name}", got, expected, "adapt this base to it")


def _pack(name: str, found: Attempt, base_sha256: str) -> tuple[Domain, dict[str, Path | bytes]]:
    """What the manifest says of a domain, and the files that it adds."""
    own = {path: source for path, source in found.files.items() if path != BASE_DATA}
    golden = own.pop(GOLDEN_FILE)
    file = f"{name}.{GOLDEN_FILE}"
    own[file] = golden
    manifest = found.manifest
    assert manifest.golden is not None, "proven"
    rules = Golden(file, manifest.golden.max_abs_error, manifest.golden.min_agreement)
    same = {
        item.name: getattr(manifest, item.name) for item in fields(Domain) if hasattr(manifest, item.name)
    }
    return Domain(base_sha256, **{**same, "files": tuple(own), "golden": rules}), own
