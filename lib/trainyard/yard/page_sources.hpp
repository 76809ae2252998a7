#pragma once

#include <string_view>

namespace trainyard::detail {

// The source files of page/, embedded by report/page/embed.py.
extern const std::string_view kYardHtml, kYardStyle, kYardScript, kYardScriptHash;

}  // namespace trainyard::detail
