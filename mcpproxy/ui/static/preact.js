// @ts-check
/** What the components use of preact and htm, in one place. */
export { html, render, useEffect, useLayoutEffect, useMemo, useRef, useState, useCallback, useErrorBoundary } from "./vendor/preact-htm.js";
