/** The artifacts of a run: a tree on the left, the file on the right. */
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactElement } from "react";

import { downloadAddress, filesQuery } from "../../api/artifacts";
import type { FileInfo } from "../../api/wire";
import { baseName, parents } from "../../lib/files";
import { bytes } from "../../lib/format";
import { Icon } from "../../ui/icon";
import { Copy, ErrorCard, Skeleton } from "../../ui/parts";
import { FileView } from "./file-view";
import "./artifacts.css";

interface Props {
  run: string;
  artifactUri: string;
  path: string;
  onPath: (path: string) => void;
  /** offered for a folder that holds a model */
  onRegister?: ((path: string) => void) | undefined;
}

export function ArtifactBrowser({ run, artifactUri, path, onPath, onRegister }: Props): ReactElement {
  const root = useQuery(filesQuery(run, ""));
  if (root.error !== null) {
    return <ErrorCard title="The artifacts could not be listed" error={root.error} retry={() => void root.refetch()} />;
  }
  if (root.data === undefined) {
    return <Skeleton />;
  }
  if (root.data.length === 0 && !artifactUri.startsWith("mlflow-artifacts:")) {
    return (
      <div className="empty">
        <h2>Stored elsewhere</h2>
        <p className="muted">
          This experiment&apos;s clients keep their files at <code>{artifactUri}</code> <Copy text={artifactUri} />. The server does not open them.
        </p>
      </div>
    );
  }
  if (root.data.length === 0) {
    return (
      <div className="empty">
        <h2>No artifacts</h2>
        <p className="muted">Files logged with <code>mlflow.log_artifact(path)</code> or <code>log_model</code> are listed here.</p>
      </div>
    );
  }
  return (
    <div className="artifacts">
      <div className="tree" role="tree" aria-label="Artifacts">
        <Level run={run} folder="" path={path} onPath={onPath} depth={0} />
      </div>
      <div className="artifact-view">
        {path === "" ? <p className="muted">Choose a file.</p> : <Chosen run={run} artifactUri={artifactUri} path={path} onRegister={onRegister} />}
      </div>
    </div>
  );
}

interface LevelProps {
  run: string;
  folder: string;
  path: string;
  onPath: (path: string) => void;
  depth: number;
}

function Level(props: LevelProps): ReactElement {
  const { data, error } = useQuery(filesQuery(props.run, props.folder));
  if (error !== null) {
    return <p className="tone-red">{error.message}</p>;
  }
  return <>{data?.map((file) => <Entry key={file.path} file={file} {...props} />)}</>;
}

function Entry({ file, ...props }: LevelProps & { file: FileInfo }): ReactElement {
  const [toggled, setToggled] = useState<boolean | null>(null);
  const isOpen = toggled ?? (parents(props.path).includes(file.path) || props.path === file.path);
  const choose = (): void => {
    if (file.is_dir) {
      setToggled(!isOpen);
    }
    props.onPath(file.path);
  };
  return (
    <>
      <button
        type="button"
        role="treeitem"
        aria-expanded={file.is_dir ? isOpen : undefined}
        aria-selected={props.path === file.path}
        className="tree-item"
        style={{ paddingLeft: 8 + props.depth * 16 }}
        onClick={choose}
      >
        <Icon name={file.is_dir ? (isOpen ? "down" : "right") : "file"} />
        <span className="grow clip">{baseName(file.path)}</span>
        {!file.is_dir && <span className="faint">{bytes(file.file_size)}</span>}
      </button>
      {file.is_dir && isOpen && <Level {...props} folder={file.path} depth={props.depth + 1} />}
    </>
  );
}

function Chosen({ run, artifactUri, path, onRegister }: Omit<Props, "onPath">): ReactElement {
  const folder = path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "";
  const siblings = useQuery(filesQuery(run, folder));
  const inside = useQuery({ ...filesQuery(run, path), enabled: siblings.data?.find((file) => file.path === path)?.is_dir === true });
  const file = siblings.data?.find((one) => one.path === path);
  if (file === undefined) {
    return siblings.data === undefined ? <Skeleton /> : <p className="muted">There is no artifact {path}.</p>;
  }
  const isModel = inside.data?.some((one) => baseName(one.path) === "MLmodel") ?? false;
  return (
    <>
      <header className="row artifact-head">
        <b className="clip">{path}</b>
        <Copy text={`${artifactUri}/${path}`} label="Copy the full path" />
        <span className="muted">{file.is_dir ? "" : bytes(file.file_size)}</span>
        <span className="grow" />
        {isModel && onRegister !== undefined && (
          <button type="button" className="btn small primary" onClick={() => onRegister(path)}>
            <Icon name="models" />
            Register model
          </button>
        )}
        {!file.is_dir && (
          <a className="btn small" href={downloadAddress(artifactUri, path)} download={baseName(path)}>
            <Icon name="download" />
            Download
          </a>
        )}
      </header>
      {file.is_dir ? <FolderFacts files={inside.data ?? []} isModel={isModel} /> : <FileView run={run} artifactUri={artifactUri} path={path} size={file.file_size ?? 0} />}
    </>
  );
}

function FolderFacts({ files, isModel }: { files: readonly FileInfo[]; isModel: boolean }): ReactElement {
  const total = files.reduce((sum, file) => sum + (file.file_size ?? 0), 0);
  return (
    <p className="muted" style={{ padding: 12 }}>
      {isModel ? "A model. " : ""}
      {files.length} entries, {bytes(total)} in files of this folder.
    </p>
  );
}
