// Has every request of the conformance suite show the server's token, which the suite has no option for.
import { createRequire } from "node:module";

const { getGlobalDispatcher, setGlobalDispatcher } = createRequire(process.env.SUITE)("undici");
const shown = ["authorization", `Bearer ${process.env.TOKEN}`];

function withToken(headers) {
  if (Array.isArray(headers)) return [...headers, ...shown];
  const entries = headers?.[Symbol.iterator] ? [...headers] : Object.entries(headers ?? {});
  return Object.fromEntries([...entries, shown]);
}

setGlobalDispatcher(
  getGlobalDispatcher().compose(
    (dispatch) => (options, handler) => dispatch({ ...options, headers: withToken(options.headers) }, handler),
  ),
);
