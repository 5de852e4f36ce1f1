// Tools of the team's MCP servers.

import { call } from "./host.js";
import { parse, write } from "./json.js";

export const mcp = {
  call(server, tool, args) {
    const given = write(args ?? {}, "the arguments of a tool");
    const { text, data, content, isError } = call("mcp", "callTool", server, tool, given);
    return {
      text,
      data: data == null ? undefined : parse(data, "the data of a tool"),
      content: parse(content, "the content of a tool"),
      isError,
    };
  },
};
