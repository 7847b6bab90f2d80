"""What a server says of itself: as many series as it has routes, whatever it is asked for."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from tests.serve.asgi import call, serving

import pellucid
from pellucid.serve.metrics import Metrics
from pellucid.serve.scheduler import Scheduler

KEPT = Path(__file__).parents[1] / "runs" / "kept" / "0.1.0" / "run"
LINE = re.compile(r'pellucid_[a-z_]+(\{[a-z]+="[^"\\\n]*"(,[a-z]+="[^"\\\n]*")*\})? [0-9.e+-]+')


def test_series_are_well_formed_and_bounded() -> None:
    with serving({"run": pellucid.load(KEPT)}, [("en", "fr")]) as server:
        for number in range(50):
            for path in (f"/{number}", f'/"\n{number}', f"/download_file/{number}", f"/translate/{number}"):
                server.get(path)
        server.get("/translate")
        server.post("/translate", {"q": "the cat", "source": "en", "target": "fr"})
        assert asyncio.run(call(server.app, "/translate", b"a" * 2**21)).status == 413
        assert "pellucid_requests_under_way 1\n" in server.get("/metrics").body.decode()  # this one
    text = server.service.metrics.text(server.service.scheduler)
    lines = text.splitlines()
    assert text.endswith("\n")
    assert all(line.startswith(("# HELP pellucid_", "# TYPE pellucid_")) or LINE.fullmatch(line) for line in lines)
    counted = {line.partition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}
    assert {name: n for name, n in counted.items() if name.startswith("pellucid_requests_total")} == {
        'pellucid_requests_total{path="/download_file/{name}",status="403"}': 50,
        'pellucid_requests_total{path="/translate",status="200"}': 1,
        'pellucid_requests_total{path="/translate",status="405"}': 1,
        'pellucid_requests_total{path="/metrics",status="200"}': 1,
        'pellucid_requests_total{path="other",status="404"}': 150,
        'pellucid_requests_total{path="/translate",status="413"}': 1}
    assert counted["pellucid_request_seconds_count"] == counted['pellucid_request_seconds_bucket{le="+Inf"}'] == 204
    assert counted["pellucid_texts_total"] == counted["pellucid_batches_total"] == 1
    assert counted["pellucid_queue_requests"] == counted["pellucid_queue_seconds"] == 0


def test_a_count_goes_on_however_large_it_is() -> None:
    scheduler = Scheduler(1.0, threads=1)
    scheduler.texts, scheduler.seconds = 123_456_789, 1_234_567.25
    lines = Metrics().text(scheduler).splitlines()
    assert "pellucid_texts_total 123456789" in lines
    assert "pellucid_decoding_seconds_total 1234567.25" in lines
