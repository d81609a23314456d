/** Parquet as a table. In its own file, so that only who opens one loads the reader. */
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { parquetMetadata, parquetReadObjects } from "hyparquet";
import { useEffect, useState, type ReactElement } from "react";

import { bytesQuery } from "../../api/artifacts";
import { fileQuery, type DataVersion } from "../../api/data";
import { ErrorCard, Skeleton } from "../../ui/parts";
import { ValueTable } from "./value-table";

const MOST_ROWS = 5000;

interface Read {
  head: string[];
  rows: string[][];
  total: number;
}

/** A value of a cell as text. */
export function cellText(value: unknown): string {
  if (value === null || value === undefined) {
    return "";
  }
  if (value instanceof Date) {
    return value.toISOString();
  }
  return typeof value === "object"
    ? JSON.stringify(value, (_, part: unknown) => (typeof part === "bigint" ? Number(part) : part))
    : String(value as string | number | bigint | boolean);
}

/** Read the first rows of a Parquet file. */
export async function readParquet(file: ArrayBuffer): Promise<Read> {
  const metadata = parquetMetadata(file);
  const packed = metadata.row_groups.flatMap((group) => group.columns.map((column) => column.meta_data?.codec ?? "UNCOMPRESSED"));
  const unknown = packed.find((codec) => codec !== "UNCOMPRESSED" && codec !== "SNAPPY");
  if (unknown !== undefined) {
    throw new Error(`Its columns are packed with ${unknown}; pages unpack SNAPPY, which most programs write unless told otherwise. Download the file to look at it.`);
  }
  const total = Number(metadata.num_rows);
  const rows = await parquetReadObjects({ file, metadata, rowStart: 0, rowEnd: Math.min(total, MOST_ROWS) });
  const head = Object.keys(rows[0] ?? {});
  return { head, total, rows: rows.map((row) => head.map((name) => cellText(row[name]))) };
}

export default function Parquet({ artifactUri, path }: { artifactUri: string; path: string }): ReactElement {
  return <Rows query={useQuery(bytesQuery(artifactUri, path))} />;
}

/** A Parquet file of a data set. */
export function ParquetOfData({ version, path }: { version: DataVersion; path: string }): ReactElement {
  return <Rows query={useQuery(fileQuery(version.name, version.version, path))} />;
}

function Rows({ query }: { query: UseQueryResult<ArrayBuffer> }): ReactElement {
  const { data, error, refetch } = query;
  const [read, setRead] = useState<Read | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  useEffect(() => {
    if (data !== undefined) {
      readParquet(data).then(setRead, setFault);
    }
  }, [data]);
  if (error !== null || fault !== null) {
    return <ErrorCard title="The file could not be read" error={error ?? fault} retry={() => void refetch()} />;
  }
  return read === null ? <Skeleton /> : <ValueTable {...read} />;
}
