"""Readers of published traces and node lists."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from trackyard.core.errors import InvalidInput
from trackyard.simulate.cluster import read_cluster
from trackyard.simulate.readers import read_trace

DATA = Path(__file__).parents[2] / "data" / "traces"


def write(folder, name, *lines):
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


CASES = {
    "philly": (
        "timestamp,duration,num_gpus,gpu_time,cluster",
        "2017-10-09 07:01:55,66.0,2,132.0,vc",
        "2017-10-09 07:01:45,5.0,1,5.0,vc",
    ),
    "chronus": (
        "job_id,user,num_gpu,submit_time,model_name,duration,expect_time_list,best_effort",
        "0,vc,2,10,vgg,66,100,0",
        "1,vc,1,0,vgg,5,100,1",
    ),
    "elasticflow": (
        "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration",
        "0,10,5,vgg,110,64,2,66",
        "1,0,5,vgg,90,64,1,5",
    ),
    "muri": (
        "job_id,num_gpu,submit_time,model_name,duration,resource_time_0",
        "0,2,10000,gpt2,66000,1",
        "1,1,0,gpt2,5000,1",
    ),
    "tiresias": (
        "job_id,num_gpu,submit_time,iterations,model_name,duration,interval",
        "0,2,10,5,vgg,66,1",
        "1,1,0,5,vgg,5,1",
    ),
    "gaia": ("arrival_time,length,cpus", "10,66,2", "0,5,1"),
    "shockwave": (
        "\t".join(["LM", "cmd", "wd", "-n", "1", "9", "2", "gns", "1", "-1", "66", "10"]),
        "\t".join(["LM", "cmd", "wd", "-n", "1", "9", "1", "gns", "1", "-1", "5", "0"]),
    ),
    "swf": (
        "; a comment",
        "1 10 3 66 2 -1 -1 2 -1 -1 1 7 3 4 1 1 -1 -1",
        "2 0 3 5 1 -1 -1 1 -1 -1 1 7 3 4 1 1 -1 -1",
    ),
}


@pytest.mark.parametrize("kind", CASES)
def test_each_format_is_recognised_and_read(kind, tmp_path):
    """Two jobs come out sorted, counted from the first, with sizes and run times in seconds."""
    trace = read_trace(write(tmp_path, "trace", *CASES[kind]))
    assert trace.format == kind
    assert [(job.submitted_at, job.duration, job.gpus) for job in trace.jobs] == [
        (0.0, 5.0, 1),
        (10.0, 66.0, 2),
    ]


def test_soft_deadlines_of_chronus_count_by_the_first(tmp_path):
    """Jobs with several, each of lesser value, as the published files have them."""
    header = "job_id,user,num_gpu,submit_time,model_name,duration,expect_time_list,best_effort"
    rows = ("0,vc,1,0,vgg,96,159-189-229-289,0", "1,vc,1,5,vgg,96,120,0", "2,vc,1,9,vgg,96,,1")
    jobs = read_trace(write(tmp_path, "mix", header, *rows)).jobs
    assert [job.deadline for job in jobs] == [159.0, 125.0, None]
    with pytest.raises(InvalidInput, match="Job 0 of the trace has 'soon'"):
        read_trace(write(tmp_path, "bad", header, "0,vc,1,0,vgg,96,soon,0"))


def test_gavel_takes_run_times_from_the_throughputs_beside_it(tmp_path):
    table = {"v100": {"('LM', 1)": {"null": 2.0}}}
    packed = gzip.compress(json.dumps(table).encode())
    (tmp_path / "simulation_throughputs.json.gz").write_bytes(packed)
    line = "\t".join(["LM", "cmd", "-n", "1", "100", "0.0", "1"])
    assert read_trace(write(tmp_path, "x.trace", line)).jobs[0].duration == 50.0


def test_gavel_without_its_table_says_what_is_missing(tmp_path):
    line = "\t".join(["LM", "cmd", "-n", "1", "100", "0.0", "1"])
    with pytest.raises(InvalidInput, match="simulation_throughputs"):
        read_trace(write(tmp_path, "x.trace", line))


def test_pollux_workloads_get_nominal_run_times(tmp_path):
    lines = ("name,time,application,num_replicas,batch_size", "a,0,cifar10,2,128")
    assert read_trace(write(tmp_path, "w.csv", *lines)).jobs[0].duration == 900.0


def test_the_samples_are_read():
    assert len(read_trace(DATA / "philly-500.csv").jobs) == 500
    pods = read_trace(DATA / "openb-pods-408.csv")
    assert pods.format == "openb"
    assert any(job.gpu_milli < 1000 for job in pods.jobs)


def test_gzip_is_unpacked(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress("\n".join(CASES["tiresias"]).encode()))
    assert len(read_trace(path, limit=1).jobs) == 1


@pytest.mark.parametrize(
    "text", ["what,is,this\n1,2,3\n", "job_id,num_gpu,submit_time,model_name,duration\n"]
)
def test_what_is_no_trace_is_refused(text, tmp_path):
    path = tmp_path / "x"
    path.write_text(text)
    with pytest.raises(InvalidInput):
        read_trace(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidInput, match="nowhere"):
        read_trace(tmp_path / "nowhere")


def test_clusters_come_from_numbers_shapes_and_files(tmp_path):
    assert [len(node.gpus) for node in read_cluster("640")] == [640]
    assert [len(node.gpus) for node in read_cluster("3x8")] == [8, 8, 8]
    nodes = read_cluster(str(DATA / "openb-nodes-61.csv"))
    assert len(nodes) == 61
    assert all(node.cpu_milli for node in nodes)
    by_vc = write(tmp_path, "vc.csv", "vc,node num", "a,2", "b,1")
    assert len(read_cluster(str(by_vc))) == 3
    switches = write(
        tmp_path,
        "c.csv",
        "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node",
        "2,3,4,8,16",
    )
    assert len(read_cluster(str(switches))) == 6
    machines = write(tmp_path, "m.csv", "a,V100,96,512,8", "b,CPU,96,512,0")
    assert [len(node.gpus) for node in read_cluster(str(machines))] == [8, 0]


@pytest.mark.parametrize("spec", ["0", "4x0"])
def test_a_cluster_without_gpus_is_refused(spec):
    with pytest.raises(InvalidInput, match="no GPU"):
        read_cluster(spec)
