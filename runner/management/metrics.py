"""What `status` says, in numbers: the text format that Prometheus reads."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from runner.management.forms import StatusForm
from runner.trusted_time import ClockState

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4


def exposition(form: StatusForm) -> bytes:
    """Return the asked voter's numbers; those that only the owner knows are there only where it is the one asked."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Told(form))
    return generate_latest(registry)


class _Told(Collector):
    """One answer of `status` as metrics."""

    def __init__(self, form: StatusForm) -> None:
        self._form = form

    def collect(self) -> Iterator[GaugeMetricFamily]:
        form = self._form
        yield _gauge("fencepost_owner", "1 if this voter owns the checkpoint.", float(form.owner == form.node))
        yield _gauge("fencepost_epoch", "Epoch of the newest acquisition that this voter has applied.", form.epoch)
        yield _gauge("fencepost_revision", "Revision of this voter's checkpoint.", form.revision)
        yield _gauge("fencepost_term", "Raft term of this voter.", form.term)
        yield _gauge("fencepost_applied_index", "Raft log index that this voter has applied.", form.applied_index)
        yield _gauge("fencepost_frozen", "1 while a freeze is in force.", float(form.frozen is not None))
        yield _gauge("fencepost_trouble", "1 while this voter cannot do its part.", float(form.trouble is not None))
        runs = GaugeMetricFamily("fencepost_runs", "Instants on record, by state of their run.", labels=["state"])
        for state, count in form.runs.items():
            runs.add_metric([state], count)
        yield runs
        voters = GaugeMetricFamily("fencepost_voter_connected", "1 for a voter that is linked.", labels=["voter"])
        for voter in form.voters:
            voters.add_metric([voter.name], float(voter.connected))
        yield voters
        if form.workers is not None:
            yield _gauge("fencepost_workers", "Workers that polled this owner.", len(form.workers))
        if form.clock is not None:
            stepped = form.clock == ClockState.STEPPED.value
            yield _gauge("fencepost_clock_stepped", "1 while the clocks are not believed.", float(stepped))
            behind = form.clock == ClockState.BEHIND.value
            yield _gauge("fencepost_clock_behind", "1 while the clocks are behind what is on record.", float(behind))


def _gauge(name: str, what: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, what, value=value)
