export function ExperimentsPage() { return <p>ExperimentsPage</p>; }
