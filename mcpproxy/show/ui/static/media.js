// @ts-check
/**
 * Images and audio of a recording. Their bytes become a Blob, whose address only this page knows, and are shown by
 * an element that runs nothing: an SVG in `<img>` has no scripts, and loads nothing.
 */
import { saveBlob } from "./copy.js";
import { size, visible } from "./format.js";
import { html, useEffect, useMemo, useState } from "./preact.js";

const IMAGES = /^image\/(png|jpe?g|gif|webp|svg\+xml)$/;
const AUDIO = /^audio\/[\w.+-]+$/;
/** @type {Record<string, string>} */
const ENDINGS = { "image/jpeg": "jpg", "image/svg+xml": "svg", "audio/mpeg": "mp3", "audio/x-wav": "wav", "text/plain": "txt" };
/** Shorter texts are shown as they are, whatever they mean. */
const SHORT = 200;
const DATA_URL = /^data:([\w.+-]{1,60}\/[\w.+-]{1,60})?(?:;[\w.+-]{1,60}=[\w.+-]{0,60})*;base64,/;

/**
 * Return the base64 in a text, and its type as far as that is known; null if it does not look like base64.
 *
 * @param {string} text
 * @param {string} mimeType what is said about the text
 * @returns {{base64: string, mimeType: string} | null}
 */
export function base64Of(text, mimeType = "") {
  if (text.length < SHORT) return null;
  const head = DATA_URL.exec(text.slice(0, 500));
  const base64 = head ? text.slice(head[0].length) : text;
  // The beginning tells: words have spaces, and data has letters of both cases and digits.
  const begin = base64.slice(0, 2000);
  const isKnown = head !== null || mimeType !== "";
  if (!/^[A-Za-z0-9+/\r\n]+={0,2}\s*$/.test(begin) || !(isKnown || /^(?=.*[A-Z])(?=.*[a-z])(?=.*[0-9])/s.test(begin))) return null;
  return { base64, mimeType: head?.[1] ?? mimeType };
}

/** Return how many bytes a base64 text has. @param {string} base64 */
export function bytesIn(base64) {
  const length = base64.trimEnd().replace(/=+$/, "").length;
  return Math.floor((length * 3) / 4);
}

/** @param {string} base64 @param {string} mimeType @returns {Blob | null} null if it is not base64 */
function blobOf(base64, mimeType) {
  try {
    return new Blob([Uint8Array.from(atob(base64), (one) => one.charCodeAt(0))], { type: mimeType });
  } catch {
    return null;
  }
}

/**
 * Data of a type: shown if it is an image or audio, and to save.
 *
 * @param {{base64: string, mimeType: string, name: string}} props `name` is the name of the file, without its ending
 */
export function Media({ base64, mimeType, name }) {
  const type = mimeType.toLowerCase().split(";")[0].trim();
  const blob = useMemo(() => blobOf(base64, type), [base64, type]);
  const [url, setUrl] = useState("");
  const [extent, setExtent] = useState("");
  const [isBroken, setBroken] = useState(false);
  const isImage = IMAGES.test(type);
  const isAudio = AUDIO.test(type);
  useEffect(() => {
    if (!blob || !(isImage || isAudio)) return undefined;
    const made = URL.createObjectURL(blob);
    setBroken(false);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [blob]);
  if (!blob) return html`<p class="problem">${visible(mimeType || "data")}: this is not base64.</p>`;
  const ending = ENDINGS[type] ?? (/\/([a-z0-9]{1,8})$/.exec(type)?.[1] || "bin");
  const words = `${type || "data"}, ${size(blob.size)}`;
  return html`<figure class="media">
    ${url && isImage && !isBroken ? html`<img src=${url} alt=${words} onLoad=${(/** @type {any} */ event) => setExtent(`${event.target.naturalWidth} × ${event.target.naturalHeight}`)} onError=${() => setBroken(true)} />` : null}
    ${url && isAudio ? html`<audio controls preload="metadata" src=${url} aria-label=${words} onError=${() => setBroken(true)}></audio>` : null}
    <figcaption class="count">${visible(words)}${extent ? `, ${extent}` : ""} <button type="button" class="link" onClick=${() => saveBlob(blob, `${name}.${ending}`)}>save</button>${" "}
      ${isBroken ? html`<span class="problem" role="status">This browser cannot show it: it may be damaged.</span>` : null}</figcaption>
  </figure>`;
}
