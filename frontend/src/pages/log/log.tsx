export function LogPage() { return <p>LogPage</p>; }
