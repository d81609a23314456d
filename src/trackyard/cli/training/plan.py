"""`yard plan MODEL`: what fine-tuning a model needs, how long it takes and what it costs, before
anything runs. Reads flags and asks planning/; cli/training/plan_view.py prints.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from trackyard.cli.output import add_json, emit_json, say
from trackyard.cli.training import plan_view
from trackyard.client.api import Api, ApiFault, Unreachable
from trackyard.core.errors import SetupError
from trackyard.finetune.planning import calibration, datasize, fleet, trace
from trackyard.finetune.planning.answers import answers
from trackyard.finetune.planning.estimate import Tracer
from trackyard.finetune.planning.gpus import find_gpu, gpu_table, with_price
from trackyard.finetune.planning.search import PlanRequest, PlanResults, search
from trackyard.finetune.setup import CHOICES
from trackyard.finetune.shapes import BUILT_IN, ModelShape, find_shape

DEFAULT_TOKENS = 100e6


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "plan",
        help="what fine-tuning a model needs and costs",
        description="Say what fits, how fast it is and what it costs, before anything runs.",
        epilog="MODEL is a folder with a config.json, a hub name on this disk, or a built-in one.",
    )
    parser.add_argument("model", nargs="?", metavar="MODEL", help="the model to fine-tune")
    parser.add_argument("--data", metavar="D", help="the training data: counts rows and tokens")
    parser.add_argument("--epochs", type=float, default=1.0, help="times over the data")
    parser.add_argument("--tokens", type=float, help="tokens in all, where no data is named")
    parser.add_argument("--gpu", metavar="TYPE", help="the type of GPU (default H200)")
    parser.add_argument("--gpus", type=int, default=1, metavar="N", help="GPUs of a node")
    parser.add_argument("--nodes", type=int, default=1, metavar="M", help="nodes")
    parser.add_argument("--on", choices=["fleet"], help="plan for the GPUs that the server has")
    parser.add_argument("--seq", type=int, default=2048, help="tokens of a sequence")
    parser.add_argument("--global-batch", type=int, default=16, help="sequences of a step")
    parser.add_argument("--micro-batch", type=int, help="sequences of a pass (default: solved)")
    for name, values in CHOICES.items():
        parser.add_argument(f"--{name}", choices=values, help=f"fix the {name}")
    parser.add_argument("--packing", action="store_true", help="rows packed into sequences")
    parser.add_argument("--no-compile", action="store_true", help="layers are not compiled")
    parser.add_argument("--offload", action="store_true", help="state in host memory")
    parser.add_argument("--rank", type=int, help="rank of adapters (default 16)")
    parser.add_argument("--targets", help="layers with adapters, as in q_proj,v_proj")
    parser.add_argument("--price", type=float, help="dollars for a GPU and hour")
    parser.add_argument("--by-price", action="store_true", help="rank by price, not GPU-hours")
    parser.add_argument("--no-trace", action="store_true", help="the closed form alone")
    parser.add_argument("-n", "--limit", type=int, default=8, help="plans shown (default 8)")
    parser.add_argument("--all", action="store_true", help="show every plan and every rejection")
    parser.add_argument("--models", action="store_true", help="list the built-in models")
    parser.add_argument("--list-gpus", action="store_true", help="list the known GPUs")
    add_json(parser)
    parser.set_defaults(func=run)


@dataclass(frozen=True)
class PlanFlags:
    """What the flags say, apart from the GPU."""

    shape: ModelShape
    given: dict[str, Any]
    data: datasize.DataSize | None
    tokens: float
    epochs: float


def run(args: argparse.Namespace) -> int:
    """Plan and print, or list what can be planned."""
    if args.models:
        return plan_view.models(BUILT_IN, is_json=args.json)
    if args.list_gpus:
        return plan_view.gpus(gpu_table(), is_json=args.json)
    if not args.model:
        raise SetupError(
            "no model is named", hint="`yard plan llama-3.1-8b`, or `yard plan --models`"
        )
    asked = _asked(args)
    tracer, note = _tracer(args)
    api = _api(must=args.on == "fleet")
    pairs = _pairs(api)
    offers = _offers(args, api)
    found = [_planned(args, asked, tracer, pairs, offer) for offer in offers]
    waits = [_wait(api, plans, offer) for plans, offer in zip(found, offers, strict=True)]
    record = calibration.accuracy(pairs)
    if args.json:
        rows = [
            plan_view.as_json(plans, answers(plans), offer, wait)
            for plans, offer, wait in zip(found, offers, waits, strict=True)
        ]
        data = None if asked.data is None else asked.data.json()
        emit_json(
            {
                "model": asked.shape.json(),
                "data": data,
                "tokens": asked.tokens,
                "note": note,
                "so_far": record.sentence() if api is not None else None,
                "plans": rows,
            }
        )
        return 0 if any(plans.ranked for plans in found) else 1
    plan_view.heading(asked.shape, asked.data, asked.tokens, asked.epochs)
    for plans, offer, wait in zip(found, offers, waits, strict=True):
        plan_view.show(plans, answers(plans), offer, wait, args)
    plan_view.footing(note, record.sentence() if api is not None else None)
    return 0 if any(plans.ranked for plans in found) else 1


def _asked(args: argparse.Namespace) -> PlanFlags:
    shape = find_shape(args.model)
    if args.tokens is not None and args.data:
        raise SetupError("--tokens and --data both say how much", hint="give one of them")
    data, tokens = None, args.tokens or DEFAULT_TOKENS
    if args.data:
        data = datasize.measure(args.data, args.model, args.seq)
        tokens = data.padded_tokens(args.seq, packed=args.packing) * args.epochs
    for note in _notes(args, shape):
        say(f"note: {note}")
    return PlanFlags(shape, _given(args, shape), data, tokens, args.epochs)


def _given(args: argparse.Namespace, shape: ModelShape) -> dict[str, Any]:
    """Return the fields of a setup that flags fix."""
    values = {
        **{name: getattr(args, name) for name in CHOICES},
        "micro_batch": args.micro_batch,
        "packing": args.packing or None,
        "compile": False if args.no_compile else None,
        "offload": args.offload or None,
        "lora_rank": args.rank,
        "lora_targets": shape.targets(tuple(args.targets.split(","))) if args.targets else None,
    }
    return {name: value for name, value in values.items() if value is not None}


def _notes(args: argparse.Namespace, shape: ModelShape) -> list[str]:
    found = []
    if args.seq > shape.max_seq:
        found.append(f"{shape.name} was trained on sequences of at most {shape.max_seq} tokens")
    if shape.family == "gemma2":
        found.append(f"{shape.name} caps attention scores; `yard finetune` does not train it")
    if args.precision == "float8":
        found.append("float8 is planned by formula; `yard finetune` does not train in it yet")
    return found


def _tracer(args: argparse.Namespace) -> tuple[Tracer | None, str]:
    if args.no_trace:
        return None, "memory by closed form, as asked"
    if not trace.can_trace():
        return None, (
            "memory by closed form: torch and transformers are not installed here "
            "(pip install 'trackyard[train]' traces the real model)"
        )
    from trackyard.finetune.planning.traces import Traces

    return Traces(said=say), "memory of the first plans traced on the real model, no GPU used"


def _api(*, must: bool) -> Api | None:
    """Return the server, or None where there is none and none is needed."""
    try:
        api = Api.from_environment(timeout=5 if not must else 30)
        if not must and not api.token:
            return None
        api.get("/api/v1/experiments")
        return api
    except (Unreachable, ApiFault):
        if must:
            raise
        return None


def _pairs(api: Api | None) -> list[calibration.PlanOutcome]:
    return [] if api is None else fleet.finished_pairs(api)


def _offers(args: argparse.Namespace, api: Api | None) -> list[fleet.GpuOffer | None]:
    if args.on != "fleet" or api is None:
        return [None]
    wanted = find_gpu(args.gpu) if args.gpu else None
    found, unknown = fleet.read_offers(api, wanted)
    if wanted is not None:
        found = [offer for offer in found if offer.gpu.name == wanted.name]
    for name in unknown:
        done = (
            f"planned as {wanted.name}" if wanted else "left out; --gpu says what to take it for"
        )
        say(f"note: {name} is not in the table of GPUs; it is {done}")
    if not found:
        raise SetupError(
            "the fleet has no GPU that can be planned for",
            hint="`yard nodes` shows what it has, `yard plan --list-gpus` what is known",
        )
    return list(found)


def _planned(
    args: argparse.Namespace,
    asked: PlanFlags,
    tracer: Tracer | None,
    pairs: list[calibration.PlanOutcome],
    offer: fleet.GpuOffer | None,
) -> PlanResults:
    gpu = find_gpu(args.gpu or "H200") if offer is None else offer.gpu
    kind = with_price(gpu, args.price)
    if offer is not None and (args.gpus > offer.per_node or args.nodes > offer.nodes):
        say(f"note: the fleet has {offer.nodes} x {offer.per_node} {offer.type}, fewer than asked")
    request = PlanRequest(
        asked.shape,
        kind,
        gpus=args.gpus,
        nodes=args.nodes,
        seq=args.seq,
        global_batch=args.global_batch,
        given=asked.given,
        tokens=asked.tokens,
        by_price=args.by_price,
        factors=calibration.factors(kind.name, pairs),
    )
    return search(request, tracer)


def _wait(
    api: Api | None, plans: PlanResults, offer: fleet.GpuOffer | None
) -> fleet.PredictedWait | None:
    if api is None or offer is None or not plans.ranked:
        return None
    best = plans.ranked[0]
    hours = best.gpu_hours(plans.request.tokens) / best.setup.world
    return fleet.predicted_wait(
        api, offer.type, plans.request.gpus, plans.request.nodes, hours * 1.2
    )
