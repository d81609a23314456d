/** Smoothing of a curve: an exponential mean without the drag of its first value. Pure. */

/** Smooth values by a weight in 0..0.999; gaps (NaN) stay gaps. */
export function smooth(values: ArrayLike<number>, weight: number): Float64Array {
  const out = new Float64Array(values.length);
  let mean = 0;
  let seen = 0;
  for (let at = 0; at < values.length; at += 1) {
    const value = values[at] ?? Number.NaN;
    if (!Number.isFinite(value)) {
      out[at] = Number.NaN;
      continue;
    }
    mean = mean * weight + (1 - weight) * value;
    seen += 1;
    // Early on the mean still holds some of the zero it began with; divide that share out.
    out[at] = weight === 0 ? value : mean / (1 - weight ** seen);
  }
  return out;
}
