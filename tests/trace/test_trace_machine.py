"""The card that a traced program meets: the part of one that a MIG instance is."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from capienza.trace import predict_peak  # noqa: E402
from capienza.trace.machine import machine_of  # noqa: E402

pytestmark = pytest.mark.oracle
KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("name", "total_mib", "processors", "codes"),
    [
        ("A100 40GB SXM MIG 3g.20gb", 19968, 42, ["trace.mig-instance"]),
        ("A100 80GB PCIe MIG 1g.10gb", 9728, 14, ["trace.mig-instance"]),
        ("A100 40GB SXM MIG 1g.5gb", 4864, 14, ["trace.total-taken", "trace.mig-instance"]),
        ("H100 SXM MIG 3g.40gb", 40 * KIB, 0, ["trace.total-taken", "trace.mig-whole"]),
        ("H100 SXM", None, 0, []),
    ],
)
def test_a_part_of_a_card_is_told_as_one(name: str, total_mib: int | None, processors: int, codes: list[str]) -> None:
    machine = machine_of(name)
    assert machine.multiprocessors == processors
    assert [one.code for one in machine.assumed] == codes
    assert total_mib is None or machine.total_bytes == total_mib * MIB
    assert machine.name == name or not codes


def test_a_program_on_a_part_of_a_card_meets_that_part() -> None:
    seen: list[int] = []

    def step() -> None:
        properties = torch.cuda.get_device_properties(0)
        seen.extend([properties.multi_processor_count, properties.total_memory, torch.cuda.mem_get_info()[1]])
        torch.zeros(1, device="cuda")

    found = predict_peak(lambda: None, lambda _state: step(), steps=1, device="A100 40GB SXM MIG 3g.20gb")
    assert seen == [42, 19968 * MIB, 19968 * MIB]
    assert found.device == "A100 40GB SXM MIG 3g.20gb"
    assert "trace.mig-instance" in [one.code for one in found.assumed]
