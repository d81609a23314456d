/** The frame around every page. */
export function App() {
  return (
    <main>
      <h1>Trackyard</h1>
      <p>
        The server is up. <code>yard env</code> prints the lines that point your training at it.
      </p>
    </main>
  );
}
