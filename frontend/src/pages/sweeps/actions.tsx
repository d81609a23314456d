/** What can be done to a sweep: stop it, give it more, go on around its best, train or register that. */
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState, type FormEvent, type ReactElement } from "react";

import { extendSweep, registerBest, searchAround, stopSweep, trainBest, type SweepDetail } from "../../api/sweeps";
import { readValues } from "../../lib/sweeps";
import { shell } from "../../lib/yard-line";
import type { IconName } from "../../ui/icon";
import { MenuButton } from "../../ui/menu";
import { YardLine } from "../../ui/parts";
import { complain, toast } from "../../ui/toast";

interface Asked {
  name: string;
  icon: IconName;
  word: string;
  hint: string;
  start: string;
  button: string;
  line: (text: string) => string;
  act: (text: string) => Promise<void>;
}

export function SweepActions({ detail }: { detail: SweepDetail }): ReactElement {
  const { sweep } = detail;
  const id = sweep.sweep_id;
  const client = useQueryClient();
  const navigate = useNavigate();
  const again = async (): Promise<void> => {
    await Promise.all([client.invalidateQueries({ queryKey: ["sweep"] }), client.invalidateQueries({ queryKey: ["sweeps"] })]);
  };
  const stop = (): void => {
    stopSweep(id).then(
      async () => {
        await again();
        toast(`Stopped ${sweep.name}`, { word: "Continue", run: () => void extendSweep(id, { trials: 1 }).then(again) }, `yard sweeps stop ${id}`);
      },
      (cause: unknown) => complain("The sweep was not stopped", cause),
    );
  };
  const asks: Asked[] = [
    {
      name: "Add trials",
      icon: "plus",
      word: "trials",
      hint: "An ended sweep goes on.",
      start: "10",
      button: "Add",
      line: (text) => `yard sweeps add ${id} --trials ${shell(text || "10")}`,
      act: async (text) => {
        await extendSweep(id, { trials: Number(text) });
        await again();
      },
    },
    {
      name: "Continue around the best",
      icon: "search",
      word: "trials",
      hint: "A new sweep in the part of the space where the five best trials lie.",
      start: String(sweep.trials ?? 20),
      button: "Begin",
      line: (text) => `yard sweeps around ${id} --trials ${shell(text || "20")}`,
      act: async (text) => {
        const made = await searchAround(id, { trials: Number(text) });
        await again();
        await navigate({ to: "/app/sweeps/$sweepId", params: { sweepId: made.sweep.sweep_id }, search: {} });
      },
    },
    {
      name: "Train the best in full",
      icon: "play",
      word: "values to add or change, as in epochs=100",
      hint: "A job with the values of the best trial, which no rule stops early.",
      start: "",
      button: "Submit",
      line: (text) => `yard sweeps train ${id}${text === "" ? "" : ` --set ${shell(text)}`}`,
      act: async (text) => {
        const job = await trainBest(id, readValues(text));
        await navigate({ to: "/app/jobs/$jobId", params: { jobId: job.job_id }, search: {} });
      },
    },
    {
      name: "Register the best",
      icon: "models",
      word: "name of the model",
      hint: "The model that the best trial logged becomes the next version.",
      start: sweep.name,
      button: "Register",
      line: (text) => `yard sweeps register ${id} ${shell(text || sweep.name)}`,
      act: async (text) => {
        const made = await registerBest(id, text, "");
        await navigate({ to: "/app/models/$name", params: { name: made.model }, search: {} });
      },
    },
  ];
  const usable = detail.best === null ? asks.slice(0, 1) : asks;
  return (
    <>
      {sweep.state === "running" && (
        <button type="button" className="btn" title={`yard sweeps stop ${id}`} onClick={stop}>
          Stop
        </button>
      )}
      {usable.map((asked) => (
        <AskButton key={asked.name} asked={asked} />
      ))}
    </>
  );
}

function AskButton({ asked }: { asked: Asked }): ReactElement {
  const [text, setText] = useState(asked.start);
  const submit = (event: FormEvent, close: () => void): void => {
    event.preventDefault();
    asked.act(text.trim()).then(
      () => {
        close();
        toast(asked.name, null, asked.line(text.trim()));
      },
      (cause: unknown) => complain(`${asked.name}: it was not done`, cause),
    );
  };
  return (
    <MenuButton name={asked.name} label={asked.name} icon={asked.icon} caret={false} width={320}>
      {(close) => (
        <form style={{ padding: 8, display: "grid", gap: 8 }} onSubmit={(event) => submit(event, close)}>
          <span className="muted">{asked.hint}</span>
          <div className="row">
            <input className="field grow" aria-label={asked.word} placeholder={asked.word} value={text} onChange={(event) => setText(event.target.value)} />
            <button type="submit" className="btn">
              {asked.button}
            </button>
          </div>
          <YardLine line={asked.line(text.trim())} />
        </form>
      )}
    </MenuButton>
  );
}
