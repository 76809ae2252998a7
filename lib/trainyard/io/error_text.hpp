#pragma once

#include <string>

#include "trainyard/core/error.hpp"

namespace trainyard {

struct ErrorTextOptions {
  // ANSI escapes. The program decides whether its terminal supports them.
  bool color = false;
};

/// The findings in readable form. Each ends with a line break:
///
///     graph.json:3:41: error[negative-bytes]: "bytes" must be 0 or more, got -4096
///         3 |     {"name": "embed.out", "bytes": -4096}
///           |                                    ^^^^^
///     help: a negative number of bytes is often an overflow or a missing size
///
/// Parts that are unknown (file, line, help) are left out.
std::string error_text(const Finding& finding, const ErrorTextOptions& options = {});
std::string error_text(const InputError& error, const ErrorTextOptions& options = {});

/// The findings as one line of JSON for programs:
///     {"errors": [{"code", "file", "line", "column", "pointer", "message", "help"}]}
/// Unknown fields are empty strings or 0.
std::string error_json(const InputError& error);

}  // namespace trainyard
