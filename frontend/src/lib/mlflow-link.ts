/** The addresses that stock MLflow clients print after a run, as pages of ours. Pure. */

/** Return our page for the part of MLflow's address behind the hash, or home for anything else. */
export function pageOf(hash: string): string {
  const run = /^#\/experiments\/\d+\/runs\/([a-f0-9]{32})(?:[/?]|$)/u.exec(hash);
  if (run?.[1] !== undefined) {
    return `/app/runs/${run[1]}`;
  }
  return /^#\/experiments(?:[/?]|$)/u.test(hash) ? "/app/experiments" : "/app/home";
}
