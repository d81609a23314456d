/** Expressions over metrics, such as `train/loss - val/loss`: a grammar written out by hand. Pure; evaluates no code. */

export type Node =
  | { kind: "number"; value: number }
  | { kind: "name"; name: string }
  | { kind: "call"; name: string; of: Node[] }
  | { kind: "sum" | "difference" | "product" | "quotient" | "power"; left: Node; right: Node }
  | { kind: "minus"; of: Node };

/** What is wrong with an expression, in words. */
export class ExpressionFault extends Error {}

const FUNCTIONS: Record<string, { least: number; most: number; run: (...values: number[]) => number }> = {
  abs: { least: 1, most: 1, run: Math.abs },
  exp: { least: 1, most: 1, run: Math.exp },
  log: { least: 1, most: 1, run: Math.log },
  log2: { least: 1, most: 1, run: Math.log2 },
  log10: { least: 1, most: 1, run: Math.log10 },
  sqrt: { least: 1, most: 1, run: Math.sqrt },
  min: { least: 2, most: 16, run: Math.min },
  max: { least: 2, most: 16, run: Math.max },
};
/** What is known of a point without any metric. */
export const BUILT_IN: readonly string[] = ["step", "time"];
const LONGEST = 500;
const DEEPEST = 40;

interface Token {
  kind: "number" | "name" | "sign";
  text: string;
}

// A slash or a minus inside a word belongs to the name (val/loss, top-1); between spaces it is an operator.
const NUMBER = /^(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?(?![\w/])/i;
const NAME = /^[A-Za-z_][\w.:@]*(?:[/-][\w.:@]+)*/;

function tokens(text: string): Token[] {
  const found: Token[] = [];
  let rest = text.trimStart();
  while (rest !== "") {
    const quoted = /^`([^`]+)`/.exec(rest);
    const number = NUMBER.exec(rest);
    const name = NAME.exec(rest);
    let length = 1;
    if (quoted !== null) {
      found.push({ kind: "name", text: quoted[1] ?? "" });
      length = quoted[0].length;
    } else if (number !== null) {
      found.push({ kind: "number", text: number[0] });
      length = number[0].length;
    } else if (name !== null) {
      found.push({ kind: "name", text: name[0] });
      length = name[0].length;
    } else if ("+-*/^(),".includes(rest[0] ?? "?")) {
      found.push({ kind: "sign", text: rest[0] ?? "" });
    } else {
      throw new ExpressionFault(`“${rest[0]}” means nothing here`);
    }
    rest = rest.slice(length).trimStart();
  }
  return found;
}

class Parser {
  private at = 0;
  private readonly all: Token[];

  constructor(text: string) {
    this.all = tokens(text);
  }

  whole(): Node {
    const node = this.sum(0);
    const left = this.all[this.at];
    if (left !== undefined) {
      throw new ExpressionFault(`“${left.text}” is one too many`);
    }
    return node;
  }

  private takes(...signs: string[]): string | null {
    const token = this.all[this.at];
    if (token?.kind === "sign" && signs.includes(token.text)) {
      this.at += 1;
      return token.text;
    }
    return null;
  }

  private sum(depth: number): Node {
    if (depth > DEEPEST) {
      throw new ExpressionFault("it is nested too deeply");
    }
    let left = this.product(depth);
    for (let sign = this.takes("+", "-"); sign !== null; sign = this.takes("+", "-")) {
      left = { kind: sign === "+" ? "sum" : "difference", left, right: this.product(depth) };
    }
    return left;
  }

  private product(depth: number): Node {
    let left = this.signed(depth);
    for (let sign = this.takes("*", "/"); sign !== null; sign = this.takes("*", "/")) {
      left = { kind: sign === "*" ? "product" : "quotient", left, right: this.signed(depth) };
    }
    return left;
  }

  private signed(depth: number): Node {
    if (depth > DEEPEST) {
      throw new ExpressionFault("it is nested too deeply");
    }
    return this.takes("-") === null ? this.power(depth) : { kind: "minus", of: this.signed(depth + 1) };
  }

  private power(depth: number): Node {
    const left = this.atom(depth);
    return this.takes("^") === null ? left : { kind: "power", left, right: this.signed(depth + 1) };
  }

  private atom(depth: number): Node {
    if (this.takes("(") !== null) {
      const inner = this.sum(depth + 1);
      this.close();
      return inner;
    }
    const token = this.all[this.at];
    if (token === undefined || token.kind === "sign") {
      throw new ExpressionFault(token === undefined ? "it ends too soon" : `a metric or a number is missing before “${token.text}”`);
    }
    this.at += 1;
    if (token.kind === "number") {
      return { kind: "number", value: Number(token.text) };
    }
    return this.takes("(") === null ? { kind: "name", name: token.text } : this.call(token.text, depth);
  }

  private call(name: string, depth: number): Node {
    const known = Object.hasOwn(FUNCTIONS, name) ? FUNCTIONS[name] : undefined;
    if (known === undefined) {
      throw new ExpressionFault(`there is no function ${name}; there are ${Object.keys(FUNCTIONS).join(", ")}`);
    }
    const of = [this.sum(depth + 1)];
    while (this.takes(",") !== null) {
      of.push(this.sum(depth + 1));
    }
    this.close();
    if (of.length < known.least || of.length > known.most) {
      throw new ExpressionFault(`${name} takes ${known.least === known.most ? "one value" : "two values or more"}`);
    }
    return { kind: "call", name, of };
  }

  private close(): void {
    if (this.takes(")") === null) {
      throw new ExpressionFault("a bracket is not closed");
    }
  }
}

/** Read an expression; throws a fault that says what is wrong. */
export function parseExpression(text: string): Node {
  if (text.length > LONGEST) {
    throw new ExpressionFault(`it is longer than ${LONGEST} characters`);
  }
  return new Parser(text).whole();
}

/** The metrics that an expression names, each once. */
export function namesIn(node: Node): string[] {
  const found = new Set<string>();
  const walk = (one: Node): void => {
    if (one.kind === "name") {
      found.add(one.name);
    } else if (one.kind === "call") {
      one.of.forEach(walk);
    } else if (one.kind === "minus") {
      walk(one.of);
    } else if (one.kind !== "number") {
      walk(one.left);
      walk(one.right);
    }
  };
  walk(node);
  return [...found];
}

/** The value of an expression where names have values. */
export function evaluate(node: Node, valueOf: (name: string) => number): number {
  switch (node.kind) {
    case "number":
      return node.value;
    case "name":
      return valueOf(node.name);
    case "minus":
      return -evaluate(node.of, valueOf);
    case "call":
      return FUNCTIONS[node.name]?.run(...node.of.map((one) => evaluate(one, valueOf))) ?? Number.NaN;
    default: {
      const [left, right] = [evaluate(node.left, valueOf), evaluate(node.right, valueOf)];
      return { sum: left + right, difference: left - right, product: left * right, quotient: left / right, power: left ** right }[node.kind];
    }
  }
}

/** What is wrong with an expression over these metrics; null where nothing is. */
export function expressionFault(text: string, metrics: readonly string[]): string | null {
  try {
    const unknown = namesIn(parseExpression(text)).find((name) => !metrics.includes(name) && !BUILT_IN.includes(name));
    if (unknown === undefined) {
      return null;
    }
    const parts = unknown.split(/[/-]/);
    return parts.length > 1 && parts.every((part) => metrics.includes(part) || /^\d+$/.test(part))
      ? `No metric is named ${unknown}. To divide or subtract, put spaces around the sign.`
      : `No metric is named ${unknown}.`;
  } catch (cause) {
    return cause instanceof ExpressionFault ? `This cannot be read: ${cause.message}.` : String(cause);
  }
}
