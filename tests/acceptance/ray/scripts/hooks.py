"""Calls the gate as Train's controller does for a run that can grow and shrink."""

import asyncio
from types import SimpleNamespace

import trackyard_gate
from ray.train import ScalingConfig
from ray.train.v2._internal.execution.scaling_policy import ResizeDecision

scaling = ScalingConfig(
    num_workers=(1, 4),
    use_gpu=True,
    resources_per_worker={"GPU": 1},
    label_selector={"zone": "!far"},
)
gate = trackyard_gate.Gate()
gate.after_controller_start(SimpleNamespace(scaling_config=scaling))
decision = ResizeDecision(num_workers=4, resources_per_worker={"GPU": 1})
gate.before_controller_execute_resize_decision(decision)
chosen = gate.on_controller_start_worker_group(
    scaling_config=scaling, num_workers=decision.num_workers
)
print("workers", decision.num_workers, "grows", scaling.elastic_resize_monitor_interval_s)
print("selector", sorted(chosen.items()))
asyncio.run(gate.before_controller_shutdown())
