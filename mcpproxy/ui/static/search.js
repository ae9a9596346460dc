// @ts-check
/** Free text over the whole recording, with progress and a way to stop. */
import { subscribe } from "./api.js";
import { html, useEffect, useState } from "./preact.js";

/**
 * A filter with free text has to read the whole recording. For a large one the progress is shown.
 *
 * @param {object} props
 * @param {string} props.id
 * @param {import("./address.js").Place} props.place
 * @param {(change: Partial<import("./address.js").Place>) => void} props.go
 */
export function Search({ id, place, go }) {
  const [progress, setProgress] = useState(/** @type {{done: number, total: number, found: number} | null} */ (null));
  const hasText = /"|(^|\s)-?[^\s:"]+(\s|$)/.test(place.filter);
  useEffect(() => {
    setProgress(null);
    if (!hasText) return undefined;
    const end = subscribe(`/api/recordings/${id}/search`, { filter: place.filter }, {
      progress: (change) => setProgress(change),
      end: () => {
        setProgress(null);
        end();
      },
    });
    return end;
  }, [id, place.filter]);
  if (!progress) return null;
  const part = progress.total ? progress.done / progress.total : 0;
  return html`<p class="searching" role="status">
    <progress value=${part} max="1" aria-label="Searched"></progress>
    ${Math.round(part * 100)} % read, ${progress.found.toLocaleString("en")} found
    <button type="button" onClick=${() => go({ filter: "" })}>Cancel</button>
  </p>`;
}
