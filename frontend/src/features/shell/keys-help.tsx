/** The list of keys. */
import type { ReactElement } from "react";

import { Dialog } from "../../ui/menu";

const KEYS: readonly [string, string][] = [
  ["Ctrl K", "search or jump to any run, job, experiment, model, node or page"],
  ["/", "go to the filter"],
  ["j  k", "next, previous run"],
  ["x", "tick the run"],
  ["s", "star the run"],
  ["h", "hide the run from the charts, or show it"],
  ["Enter", "open the run"],
  ["c", "compare the selected runs"],
  ["g h", "home"],
  ["g e", "experiments"],
  ["g b", "logbook"],
  ["g r", "runs"],
  ["g m", "models"],
  ["g q", "queue"],
  ["g n", "nodes"],
  ["g s", "leases (a schedule of nodes)"],
  ["g p", "plan fine-tuning"],
  ["g u", "usage and cost"],
  ["g a", "alerts"],
  ["g l", "log"],
  ["?", "this list"],
];

export function KeysHelp({ onClose }: { onClose: () => void }): ReactElement {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <table className="plain">
        <tbody>
          {KEYS.map(([key, what]) => (
            <tr key={key}>
              <td style={{ width: 90 }}>
                <kbd>{key}</kbd>
              </td>
              <td>{what}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Dialog>
  );
}
