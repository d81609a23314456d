/** Small files that browsers play or show. */

/** A tenth of a second of silence, as a WAV file. */
export function tone(): ArrayBuffer {
  const samples = 800;
  const file = new DataView(new ArrayBuffer(44 + samples));
  const put = (at: number, word: string): void => [...word].forEach((sign, place) => file.setUint8(at + place, sign.charCodeAt(0)));
  put(0, "RIFF");
  file.setUint32(4, 36 + samples, true);
  put(8, "WAVEfmt ");
  [16, 0x00010001, 8000, 8000, 0x00080001].forEach((word, at) => file.setUint32(16 + at * 4, word, true));
  put(36, "data");
  file.setUint32(40, samples, true);
  return file.buffer as ArrayBuffer;
}

/** A Parquet file of three rows: epoch 1 to 3, name a, b and ü. */
export const PARQUET =
  "UEFSMRUAFSQVJCwVBhUAFQYVBhwAAAACAAAABgEBAAAAAgAAAAMAAAAVABUsFSwsFQYVABUGFQYcAAAAAgAAAAYBAQAAAGEBAAAAYgIAAADDvBUEGTw1ABgGc2NoZW1hFQQAFQIlAhgFZXBvY2gAFQwlAhgEbmFtZSUATBwAAAAWBhkcGSwmABwVAhklBgAZGAVlcG9jaBUAFgYWShZKJghJHBUAFQAVAgA8KQYZJgAGAAAAJgAcFQwZJQYAGRgEbmFtZRUAFgYWUhZSJlJJHBUAFQAVAgA8FggZBhkmAAYAAAAWnAEWBiYIFpwBACggcGFycXVldC1jcHAtYXJyb3cgdmVyc2lvbiAyNS4wLjEZLBwAABwAAADHAAAAUEFSMQ==";
