#pragma once

#include <string>

#include "trainyard/core/error.hpp"

namespace trainyard {

struct ErrorTextOptions {
  bool color = false;  // ANSI escapes: whether the terminal wants them is the program's business
};

/// All findings as a person reads them, each ended by a line break:
///
///     graph.json:3:41: error[negative-bytes]: "bytes" must be 0 or more, got -4096
///         3 |     {"name": "embed.out", "bytes": -4096}
///           |                                    ^^^^^
///     help: a negative number of bytes is often an overflow or a missing size
///
/// Unknown parts (the file, the line, the help) are left out.
std::string error_text(const Finding& finding, const ErrorTextOptions& options = {});
std::string error_text(const InputError& error, const ErrorTextOptions& options = {});

/// One line of JSON for programs: {"errors": [{"code", "file", "line", "column", "pointer", "message", "help"}]}. What
/// is not known is an empty string or 0.
std::string error_json(const InputError& error);

}  // namespace trainyard
