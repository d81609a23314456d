export function ModelPage() { return <p>ModelPage</p>; }
