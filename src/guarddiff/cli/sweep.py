"""``guarddiff sweep``: which operators and models are silently wrong, measured."""

from __future__ import annotations

import contextlib
import difflib
import fnmatch
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from guarddiff.cli import output, progress, sweep_progress, sweep_text
from guarddiff.cli.errors import CLEAN, INCOMPLETE, INTERRUPTED, Failed, Wrong, line, told
from guarddiff.cli.params import Place, Seconds

if TYPE_CHECKING:
    from guarddiff.sweep.case import Case, Group
    from guarddiff.sweep.run import Ended

_GROUPS: tuple[Group, ...] = ("ops", "catalogue", "models")
_MADE_OF_RESULTS = ("page", "compare")

_HELP = """Measure on this torch which operators and models are exported silently wrong, and what guarddiff says of it.

Each case is exported, run at other sizes and compared with eager PyTorch. It has a worker process, which may crash or
hang without harm to the rest, and a time limit. Outcomes are written as they come.

\b
Examples:
  guarddiff sweep ops
  guarddiff sweep catalogue --only 'adaptive*' --out results
  guarddiff sweep models --resume --out results
  guarddiff sweep case ops/cumsum/0 --out report
  guarddiff sweep page results

\b
Exit codes: 0 all cases have an outcome, whatever it is; 2 wrong usage; 3 some have none; 130 interrupted.
"""

_MEASURE = """{what}

Outcomes are appended to results-{group}.jsonl in the folder of --out, one line each.

\b
Examples:
  guarddiff sweep {group}
  guarddiff sweep {group} --only '{glob}' --jobs 1
  guarddiff sweep {group} --resume --out results
  guarddiff sweep {group} --dask tcp://scheduler:8786

With --dask the workers of a Dask cluster measure; they need the same versions of Python and of all packages. Each
thread of a worker measures one case at a time: `dask worker --nworkers N --nthreads 1`. Interrupted there, cases that
are being measured go on to their end, and their outcomes are dropped.

\b
Exit codes: 0 all cases have an outcome, whatever it is; 2 wrong usage; 3 some have none; 130 interrupted.
"""

_WHAT = {
    "ops": (
        "Measure the operators of torch's own database, with all dimensions of their inputs dynamic.",
        "ops/nn.functional.*",
    ),
    "catalogue": ("Measure small modules that are typical of real models.", "catalogue/adaptive*"),
    "models": (
        "Measure models with random weights: of torchvision, timm and transformers, those that are installed.",
        "models/timm/*",
    ),
}

_LIST = """List the keys of the cases of a group: ops, catalogue or models.

\b
Examples:
  guarddiff sweep list ops
  guarddiff sweep list catalogue --only '*attention*'

\b
Exit codes: 0 listed, 2 where no case matches.
"""

_CASE = """Measure one case in this process, tell what came out, and write guarddiff's full report of its export.

\b
Examples:
  guarddiff sweep case ops/cumsum/0 --out report
  guarddiff sweep list ops --only '*cumsum*'

\b
Exit codes: 0 measured, 2 where there is no such case, 3 where it can't be measured.
"""

_Made = TypeVar("_Made", bound=Callable[..., Any])


class Sweeps(click.Group):
    """Commands whose modules are loaded when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_GROUPS, "list", "case", *_MADE_OF_RESULTS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for group in _GROUPS:
            if cmd_name == group:
                return _measuring(group)
        if cmd_name in _MADE_OF_RESULTS:
            from guarddiff.cli import swept

            made: click.Command = getattr(swept, cmd_name)
            return made
        return super().get_command(ctx, cmd_name)


@click.group("sweep", cls=Sweeps, help=_HELP)
def command() -> None:
    pass


def _only(made: _Made) -> _Made:
    help = "Only cases whose key, with or without its group, matches; repeatable. * stands for anything."
    return click.option("--only", multiple=True, metavar="GLOB", help=help)(made)


def _out(made: _Made) -> _Made:
    return click.option(
        "--out",
        type=Place(file_okay=False),
        default=Path("guarddiff-sweep"),
        show_default=True,
        metavar="DIR",
        help="Folder for the results.",
    )(made)


@functools.cache
def _measuring(group: Group) -> click.Command:
    what, glob = _WHAT[group]

    @click.command(group, help=_MEASURE.format(what=what, group=group, glob=glob))
    @_only
    @click.option("--jobs", type=click.IntRange(1, 1024), metavar="N", help="Worker processes; one per core without.")
    @click.option("--resume", is_flag=True, help="Go on with the file that is there, measuring what it lacks.")
    @_out
    @click.option("--dask", metavar="ADDRESS", help="Measure on the workers of this Dask scheduler, tcp://host:port.")
    @click.option(
        "--seconds",
        type=Seconds(),
        metavar="N",
        help="Time limit of each case, instead of the one that it has (120, 300 or 600 by group).",
    )
    @click.pass_context
    def measuring(ctx: click.Context, only: tuple[str, ...], jobs: int | None, resume: bool, out: Path,
                  dask: str | None, seconds: float | None) -> None:  # fmt: skip
        if dask is not None and jobs is not None:
            raise Wrong("--jobs is for this machine: with --dask the workers say how much they measure at a time")
        path = out / f"results-{group}.jsonl"
        if path.exists() and not resume:
            raise Wrong(f"{str(path)!r} is there: go on with it by --resume, or choose another folder by --out")
        cases = _chosen(group, only)
        if seconds is not None:
            cases = [replace(case, seconds=seconds) for case in cases]
        ctx.exit(_swept(group, cases, path, resume, jobs or _cores(), dask))

    return measuring


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _chosen(group: Group, only: Sequence[str]) -> list[Case]:
    """The cases that match, all without ``only``. Raises Wrong where there are none, and for a glob without a match."""

    def wanted(family: str) -> bool:
        return any(_may_match(group, family, glob) for glob in only)

    cases = _listed(group, wanted if only else None)
    unknown = [glob for glob in only if not any(_matches(case, glob) for case in cases)]
    if unknown or not cases:
        known = _families(group)
        if not known:
            why = ": none of torchvision, timm and transformers is installed" if group == "models" else ""
            raise Wrong(f"{group} has no case here{why}")
        raise Wrong(f"no case of {group} matches {' or '.join(map(repr, unknown))}{_near(known, cases, unknown[0])}")
    return [case for case in cases if not only or any(_matches(case, glob) for glob in only)]


def _families(group: Group) -> list[str]:
    """The names of the families of a group. Raises Wrong where what lists them can't be loaded."""
    from guarddiff.sweep import sources

    try:
        return sources.families(group)
    except ImportError as error:
        raise Wrong(str(error)) from error


def _listed(group: Group, wanted: Callable[[str], bool] | None = None) -> list[Case]:
    """The cases of the families that are wanted, None of all. Raises Wrong where what lists them can't be loaded."""
    from guarddiff.sweep import sources

    with progress.stdout_kept(), progress.waiting(f"looking up the cases of {group}"):
        try:
            return sources.cases(group, wanted)
        except ImportError as error:
            raise Wrong(str(error)) from error


def _may_match(group: Group, family: str, glob: str) -> bool:
    """Whether the glob may match a case of this family, whatever the case's name is: what stands before the name is
    matched by a beginning of the glob."""
    beginnings = [glob[:end] for end in range(len(glob) + 1)]
    if _is(glob, family, group):
        return True
    names = f"{group}/{family}/", f"{family}/"
    return glob.startswith(names) or any(fnmatch.fnmatchcase(name, part) for name in names for part in beginnings)


def _matches(case: Case, glob: str) -> bool:
    return _is(glob, case.key.partition("/")[2], case.group) or _is(glob, case.family, case.group)


def _is(glob: str, name: str, group: str) -> bool:
    """Whether the glob means this name, with or without its group before it."""
    return any(glob == one or fnmatch.fnmatchcase(one, glob) for one in (name, f"{group}/{name}"))


def _near(families: Sequence[str], cases: Sequence[Case], asked: str) -> str:
    """``; there are …`` with the families, and of these cases the keys, that are most like it; empty where none is."""
    names = dict.fromkeys((*families, *(case.key for case in cases)))
    plain = asked.strip("*?/")
    near = difflib.get_close_matches(plain, names, 4, 0.5)
    near = near or [name for name in names if plain and plain.lower() in name.lower()][:4]
    return f"; there are {', '.join(map(repr, near))}" if near else ""


@dataclass(frozen=True)
class _Where:
    """An executor, how many cases it measures at a time, how many are submitted to it, which of its exceptions say that
    a case was lost, and the versions that its workers have to have (None: they are this process's)."""

    executor: Executor
    jobs: int
    limit: int
    lost: tuple[type[BaseException], ...]
    versions: dict[str, str] | None = None


@contextlib.contextmanager
def _where(jobs: int, dask: str | None) -> Iterator[_Where]:
    """Raises Wrong where the cluster can't be used."""
    from guarddiff.sweep import bench
    from guarddiff.sweep import dask as clusters
    from guarddiff.sweep.run import LOST
    from guarddiff.sweep.versions import versions

    if dask is None:
        with bench.threads(jobs) as executor:
            yield _Where(executor, jobs, jobs + 1, LOST)
        return
    try:
        with clusters.cluster(dask) as cluster:
            yield _Where(cluster.executor, cluster.threads, cluster.limit, cluster.lost, versions())
    except clusters.Unreachable as error:
        raise Wrong(f"--dask: {error}") from error


def _swept(group: Group, cases: Sequence[Case], path: Path, resume: bool, jobs: int, dask: str | None) -> int:
    """Measure, tell, and return the exit code."""
    from guarddiff.sweep import bench, summary, worker
    from guarddiff.sweep.journal import JournalError, Writer
    from guarddiff.sweep.run import SweepError, sweep

    with _where(jobs, dask) as where:
        try:
            journal = Writer(path, group, resume=resume, jobs=where.jobs)
        except JournalError as error:
            raise Wrong(str(error)) from error
        with journal:
            measure = functools.partial(bench.measure_apart, room=worker.ROOM, asked=where.versions)
            try:
                with sweep_progress.sweeping(f"sweeping {group}") as on_progress:
                    ended = sweep(
                        cases,
                        where.executor,
                        journal,
                        on_progress,
                        limit=where.limit,
                        measure=measure,
                        lost=where.lost,
                    )
            except (SweepError, JournalError) as error:
                raise Failed(f"{error}. {_go_on(len(journal.outcomes), path)}") from error
    outcomes = [journal.outcomes[case.key] for case in cases if case.key in journal.outcomes]
    if outcomes:
        output.say(sweep_text.table(summary.summarize(outcomes)))
    return _ending(ended, len(cases), path)


def _ending(ended: Ended, total: int, path: Path) -> int:
    done = total - len(ended.unmeasured)
    if ended.interrupted:
        output.tell(f"guarddiff: interrupted. {_go_on(done, path)}")
        return INTERRUPTED
    output.tell(f"results: {path}")
    return INCOMPLETE if ended.unmeasured else CLEAN


def _go_on(done: int, path: Path) -> str:
    outcomes = "1 outcome is" if done == 1 else f"{done:,} outcomes are"
    return f"{outcomes} in {path}: --resume goes on from there"


@command.command("list", help=_LIST)
@click.argument("group", type=click.Choice(_GROUPS), metavar="GROUP")
@_only
def listing(group: Group, only: tuple[str, ...]) -> None:
    for case in _chosen(group, only):
        output.say(line(case.key))


@command.command("case", help=_CASE)
@click.argument("key", metavar="KEY")
@_out
@click.pass_context
def one_case(ctx: click.Context, key: str, out: Path) -> None:
    from guarddiff.core.errors import ReportWriteError
    from guarddiff.sweep import worker
    from guarddiff.sweep.outcome import UNMEASURED

    with progress.stdout_kept():
        with progress.waiting(f"measuring {line(key, 60)}"):
            case = _case(key)
            outcome = worker.measured(worker.torch_room(), case.key, worker.seed(case.key))
        output.tell(f"measured: {outcome.state}; writing the report")
        with progress.waiting(f"reporting on {line(key, 60)}"):
            from guarddiff.sweep import measure

            try:
                paths, failure = measure.report(case, out), None
            except ReportWriteError as error:
                raise Wrong(str(error)) from error
            except Exception as error:  # what making the case raises
                paths, failure = (), error
    output.say(sweep_text.told(outcome))
    for path in paths:
        output.tell(f"report:  {path}")
    if failure is not None:
        output.tell(f"guarddiff: there is no report: {told(failure)}")
    ctx.exit(INCOMPLETE if failure is not None or outcome.state in UNMEASURED else CLEAN)


def _case(key: str) -> Case:
    """Raises Wrong where there is none."""
    from guarddiff.sweep import sources

    group = key.partition("/")[0]
    for known in _GROUPS:
        if group == known:
            try:
                return sources.case(key)
            except (KeyError, ValueError):
                cases = _listed(known, lambda family: family in key.split("/"))
                raise Wrong(f"there is no case {key!r}{_near(_families(known), cases, key)}") from None
    raise Wrong(f"{key!r} is no case: a key begins with {', '.join(f'{known}/' for known in _GROUPS)}")
