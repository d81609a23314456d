/** Code from a git repository: the command that fetches it on the node, then runs the user's. Pure. */

/** Fetches one commit only, works for branches, tags and commits alike, and again in a folder that has it. */
const SCRIPT = 'git init -q code && cd code && git fetch -q --depth 1 -- "$1" "$2" && git checkout -q -f FETCH_HEAD && shift 2 && exec "$@"';
const HEAD = "HEAD";

export interface GitSource {
  address: string;
  /** a branch, tag or commit; empty for the repository's default branch */
  ref: string;
  command: string[];
}

export interface GitFault {
  about: "git" | "gitRef";
  sentence: string;
}

/** What is wrong with an address or a ref; null where nothing is. */
export function gitFault(address: string, ref: string): GitFault | null {
  const isUrl = /^(https?|ssh|git):\/\/[^\s/]+\/\S+$/.test(address);
  const isShort = /^[\w.-]+@[\w.-]+:\S+$/.test(address);
  if (!isUrl && !isShort) {
    return { about: "git", sentence: "An address such as https://host/team/code.git or git@host:team/code.git" };
  }
  if (/^https?:\/\/[^/\s]*@/.test(address)) {
    return { about: "git", sentence: "Everyone in the team can read a job's request: leave the user and password out, and give the node access instead" };
  }
  if (ref !== "" && (!/^[\w][\w./+-]*$/.test(ref) || ref.includes(".."))) {
    return { about: "gitRef", sentence: "A branch, a tag or a commit" };
  }
  return null;
}

/** The command that fetches the code and runs another in it. */
export function viaGit(address: string, ref: string, command: readonly string[]): string[] {
  return ["sh", "-c", SCRIPT, "git", address, ref === "" ? HEAD : ref, ...command];
}

/** Read such a command back; null for any other. */
export function ofGit(command: readonly string[]): GitSource | null {
  const [program, flag, script, , address, ref, ...rest] = command;
  if (program !== "sh" || flag !== "-c" || script !== SCRIPT || address === undefined || ref === undefined) {
    return null;
  }
  return { address, ref: ref === HEAD ? "" : ref, command: rest };
}
