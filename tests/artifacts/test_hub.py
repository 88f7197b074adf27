"""Hub ids against a real server on this machine: what is asked, what is counted, and how failures read."""

import json
import os
import subprocess
import sys
from pathlib import Path

import huggingface_hub
import pytest
from artifact_files import TWO_SHARDS, gguf_bytes, gguf_key, gguf_tensor, write_safetensors, write_sharded
from huggingface_hub import constants
from loopback_hub import LoopbackHub

from capienza.artifacts import hub as hub_module
from capienza.artifacts.model import Artifact, open_model
from capienza.errors import CapienzaError, InputError, UnreachableError

LARGE = {f"layer.{number}": ("BF16", [256, 64]) for number in range(40)}
TOKEN = "hf_loopback_token"


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Three repositories: org/sharded, org/large (one file of 1.3 MB) and org/quants (two GGUF files)."""
    root = tmp_path / "served"
    write_sharded(root / "org/sharded", TWO_SHARDS)
    (root / "org/sharded/config.json").write_text('{"model_type": "x"}')
    (root / "org/sharded/pytorch_model.bin").write_bytes(b"PK")
    write_safetensors(root / "org/large/model.safetensors", LARGE)
    (root / "org/large/config.json").write_text('{"model_type": "x"}')
    for name in ("m.Q4_K_M.gguf", "m.Q8_0.gguf"):
        path = root / "org/quants" / name
        path.parent.mkdir(exist_ok=True)
        keys = [gguf_key("general.architecture", 8, "llama")]
        path.write_bytes(gguf_bytes(keys, [gguf_tensor("t", [4], 0, 0)], 16))
    with LoopbackHub(root) as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.endpoint)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 5)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server
        huggingface_hub.close_session()


def refusal(reference: str, kind: type[CapienzaError] = UnreachableError, revision: str | None = None) -> CapienzaError:
    with pytest.raises(kind) as caught:
        open_model(reference, revision)
    assert caught.value.as_dict()[0]["hint"]
    return caught.value


def code_of(reference: str, kind: type[CapienzaError] = UnreachableError, revision: str | None = None) -> str:
    return refusal(reference, kind, revision).message.code.removeprefix("artifacts.")


def same_model(remote: Artifact, folder: Path) -> bool:
    local = open_model(str(folder))
    return (remote.tensors, remote.config, remote.metadata, remote.files, remote.left_out) == (
        local.tensors,
        local.config,
        local.metadata,
        local.files,
        local.left_out,
    )


def test_a_sharded_repository_reads_like_its_folder(server):
    model = open_model("org/sharded")
    assert same_model(model, server.root / "org/sharded")
    assert model.revision == server.commit("org/sharded")
    assert (model.reference, model.notes) == ("org/sharded", ())


def test_only_headers_are_fetched_and_every_byte_is_counted(server):
    model = open_model("org/large")
    size = (server.root / "org/large/model.safetensors").stat().st_size
    assert sum(tensor.bytes for tensor in model.tensors) > 10 * 96 * 1024
    assert model.bytes_read == server.sent_bytes < size / 10
    assert all(method == "GET" for method, _, _ in server.requests)
    # The listing, the config, and one range of the weights with its redirect.
    assert len(server.requests) == 4
    assert server.requests[-1][2]["range"] == "bytes=0-98303"


def test_everything_is_read_at_the_commit(server):
    server.branches["v1.0"] = "org/sharded"
    commit = server.commit("org/sharded")
    for revision in ("main", "v1.0", commit, commit[:8]):
        server.requests.clear()
        assert open_model("org/sharded", revision).revision == commit
        assert all(f"/resolve/{commit}/" in path for _, path, _ in server.requests if "/resolve/" in path)


def test_the_token_goes_to_the_hub_only(server):
    server.cdn_origin = server.endpoint.replace("127.0.0.1", "localhost")
    open_model("org/sharded")
    stored = [headers for _, path, headers in server.requests if path.startswith("/cdn/")]
    asked = [headers for _, path, headers in server.requests if not path.startswith("/cdn/")]
    assert len(stored) == 2
    assert not any("authorization" in headers for headers in stored)
    assert all(headers["authorization"] == f"Bearer {TOKEN}" for headers in asked)


def test_no_token_where_there_is_none_or_it_is_not_to_be_sent(server, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
    open_model("org/sharded")
    assert not any("authorization" in headers for _, _, headers in server.requests)


@pytest.mark.parametrize("reference", ["hf://org/sharded", "hf://models/org/sharded"])
def test_hub_addresses(server, reference):
    assert len(open_model(reference).tensors) == 3


def test_a_revision_prefers_the_hub_to_a_folder_of_that_name(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org/sharded").mkdir(parents=True)
    assert open_model("org/sharded", "main").revision == server.commit("org/sharded")


def test_several_gguf_files(server):
    error = refusal("org/quants", InputError)
    assert error.message.code == "artifacts.several-models"
    assert "m.Q4_K_M.gguf, m.Q8_0.gguf" in str(error)
    assert "org/quants:m.Q4_K_M.gguf" in error.as_dict()[0]["hint"]
    model = open_model("org/quants:m.Q8_0.gguf")
    assert (model.kind, model.left_out) == ("gguf", ("m.Q4_K_M.gguf",))
    missing = refusal("org/quants:m.Q9.gguf")
    assert missing.message.parameters["accepted"] == ["m.Q4_K_M.gguf", "m.Q8_0.gguf"]
    assert code_of("org/quants:README.md", InputError) == "wrong-suffix"
    (server.root / "org/sharded/model.safetensors.index.json").unlink()
    assert code_of("org/sharded:none.gguf") == "no-such-file"


@pytest.mark.parametrize(
    "fault, code, hint",
    [
        ("gated", "hub-gated", "hf auth login"),
        ("forbidden", "hub-gated", "hf auth login"),
        ("private", "hub-missing-repository", "./org/large"),
        ("missing", "hub-missing-repository", "check the id"),
        ("bad-token", "hub-bad-token", "HF_TOKEN"),
        ("busy", "hub-too-many-requests", "wait"),
        ("broken", "hub-refused", "again"),
        ("garbage", "hub-strange-answer", "HF_ENDPOINT"),
        ("compressed", "hub-strange-answer", "HF_ENDPOINT"),
        ("wrong-range", "hub-strange-answer", "HF_ENDPOINT"),
        ("redirect-loop", "hub-strange-answer", "HF_ENDPOINT"),
        ("bad-redirect", "hub-strange-answer", "HF_ENDPOINT"),
        ("lost-files", "hub-missing-file", "/org/large/tree/main"),
        ("other-case", "hub-moved", "Org/Large"),
        ("drops", "hub-no-answer", "connection"),
        ("stalls", "hub-no-answer", "connection"),
    ],
)
def test_failures_say_what_helps(server, monkeypatch, fault, code, hint):
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.3)
    server.faults["org/large"] = fault
    error = refusal("org/large")
    assert error.message.code == f"artifacts.{code}"
    assert error.exit_code == 4
    assert hint in error.as_dict()[0]["hint"]
    assert TOKEN not in str(error.as_dict())


def test_a_moved_repository_names_its_new_id(server):
    server.moved["org/old"] = "org/large"
    assert refusal("org/old").message.parameters == {"found": "org/large"}


def test_missing_repository_and_revision(server):
    assert code_of("org/none") == "hub-missing-repository"
    assert code_of("org/large", revision="v9") == "hub-missing-revision"
    for revision in ("../main", "a b", "", "main/../x", "x\n"):
        assert code_of("org/large", InputError, revision=revision) == "hub-bad-revision"


@pytest.mark.parametrize("fault", ["ignores-range", "no-sizes", "no-redirect"])
def test_lesser_servers_are_good_enough(server, fault):
    server.faults["org/large"] = fault
    model = open_model("org/large")
    assert same_model(model, server.root / "org/large")


def test_a_server_that_ignores_ranges_is_not_read_to_the_end(server):
    write_safetensors(server.root / "org/huge/model.safetensors", {"w": ("U8", [2**26])})
    server.faults["org/huge"] = "ignores-range"
    model = open_model("org/huge")
    assert model.tensors[0].bytes == 2**26
    # What lies in the buffers between the two is sent, but no more.
    assert model.bytes_read < 400_000
    assert server.sent_bytes < 2**26 / 2


def test_a_server_that_never_ends_is_cut_off(server, monkeypatch):
    monkeypatch.setattr(hub_module, "REQUEST_SECONDS", -1)
    assert code_of("org/large") == "hub-strange-answer"


def test_nobody_listens(server, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert code_of("org/large") == "hub-no-answer"


def test_long_headers_of_many_shards(server):
    shards = {
        f"model-{number:05}-of-00012.safetensors": {
            f"layers.{number}.{'x' * 60}.{row}": ("U8", [1]) for row in range(900)
        }
        for number in range(1, 13)
    }
    write_sharded(server.root / "org/many", shards)
    model = open_model("org/many")
    assert len(model.tensors) == 12 * 900
    assert model.bytes_read == server.sent_bytes
    assert [tensor.name for tensor in model.tensors] == [name for shard in shards.values() for name in shard]


def cache(server, tmp_path: Path, repo: str, names: list[str]) -> str:
    """Lay out the local cache as huggingface_hub does: refs, snapshots, blobs behind links."""
    commit = server.commit(repo)
    root = tmp_path / "cache" / f"models--{repo.replace('/', '--')}"
    (root / "refs").mkdir(parents=True)
    (root / "refs/main").write_text(commit)
    (root / "blobs").mkdir()
    snapshot = root / "snapshots" / commit
    snapshot.mkdir(parents=True)
    for number, name in enumerate(names):
        (root / "blobs" / str(number)).write_bytes((server.root / repo / name).read_bytes())
        (snapshot / name).symlink_to(f"../../blobs/{number}")
    return commit


SHARDED_NAMES = ["config.json", "model.safetensors.index.json", *TWO_SHARDS]


def test_offline_reads_the_cache(server, tmp_path, monkeypatch):
    commit = cache(server, tmp_path, "org/sharded", SHARDED_NAMES)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    for revision in (None, "main", commit, commit[:7]):
        model = open_model("org/sharded", revision)
        assert (model.revision, len(model.tensors)) == (commit, 3)
        assert [note.code for note in model.notes] == ["artifacts.read-from-cache"]
    assert server.requests == []
    for repo, revision in (("org/large", None), ("org/sharded", "v2"), ("org/sharded", "0" * 40)):
        assert code_of(repo, revision=revision) == "hub-offline"


def test_offline_with_half_a_model_says_what_to_download(server, tmp_path, monkeypatch):
    cache(server, tmp_path, "org/sharded", SHARDED_NAMES[:3])
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    error = refusal("org/sharded")
    assert error.message.code == "artifacts.not-cached"
    assert "model-00002-of-00002.safetensors" in str(error)
    assert "hf download org/sharded" in error.as_dict()[0]["hint"]


def test_without_a_connection_the_cache_is_used_and_said(server, tmp_path, monkeypatch):
    commit = cache(server, tmp_path, "org/sharded", SHARDED_NAMES)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    model = open_model("org/sharded")
    assert model.revision == commit
    assert [note.code for note in model.notes] == ["artifacts.read-from-cache"]


def test_a_refusal_of_the_hub_is_not_papered_over_by_the_cache(server, tmp_path):
    cache(server, tmp_path, "org/sharded", SHARDED_NAMES)
    server.faults["org/sharded"] = "private"
    assert code_of("org/sharded") == "hub-missing-repository"


def run_program(program: str, endpoint: str, home: Path) -> str:
    """What a fresh Python prints, with `endpoint` as its Hub from the start and nothing cached outside `home`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    environment |= {"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1"}
    made = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return made.stdout.strip()


@pytest.mark.oracle
def test_the_cache_that_huggingface_hub_writes(server, tmp_path, monkeypatch):
    program = (
        f"from huggingface_hub import hf_hub_download\nfor n in {SHARDED_NAMES}: hf_hub_download('org/sharded', n)"
    )
    run_program(program, server.endpoint, tmp_path / "home")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    model = open_model("org/sharded")
    assert (len(model.tensors), model.revision) == (3, server.commit("org/sharded"))


@pytest.mark.oracle
def test_the_server_is_enough_of_a_hub_for_huggingface_hub(server, tmp_path):
    program = (
        "import json; from huggingface_hub import *; m = get_safetensors_metadata('org/sharded');"
        "print(json.dumps([{n: m.files_metadata[f].tensors[n].shape for n, f in m.weight_map.items()},"
        " model_info('org/sharded', files_metadata=True).sha]))"
    )
    shapes, commit = json.loads(run_program(program, server.endpoint, tmp_path))
    ours = open_model("org/sharded")
    assert shapes == {tensor.name: list(tensor.shape) for tensor in ours.tensors}
    assert commit == ours.revision


def test_as_a_script_with_the_endpoint_from_the_environment(server, tmp_path):
    script = Path(__file__).parents[1] / "support" / "loopback_hub.py"
    program = (
        "from capienza.artifacts.model import open_model; print([t.name for t in open_model('org/sharded').tensors])"
    )
    command = [sys.executable, str(script), str(server.root), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            endpoint = process.stdout.readline().strip().removeprefix("HF_ENDPOINT=")
            assert run_program(program, endpoint, tmp_path) == "['a', 'b', 'c']"
        finally:
            process.terminate()
