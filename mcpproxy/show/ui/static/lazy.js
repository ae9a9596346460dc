// @ts-check
/** Views that are loaded when they are shown first, so that the rows of a recording do not wait for them. */
import { html, useEffect, useState } from "./preact.js";

/**
 * Return a component that shows what `load` returns, and nothing until that is there.
 *
 * @param {() => Promise<any>} load
 */
export function lazy(load) {
  /** @type {any} */
  let View = null;
  return (/** @type {any} */ props) => {
    const [error, setError] = useState(/** @type {Error | null} */ (null));
    const [, setLoaded] = useState(View !== null);
    useEffect(() => {
      if (View) return;
      load().then((view) => {
        View = view;
        setLoaded(true);
      }, setError);
    }, []);
    if (error) throw error; // the page says so in the place of the view
    return View && html`<${View} ...${props} />`;
  };
}
