export function ModelsPage() { return <p>ModelsPage</p>; }
