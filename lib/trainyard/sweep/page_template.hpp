#pragma once

#include <ostream>
#include <string>
#include <string_view>

namespace trainyard::detail {

/// Escapes JSON for a script element, so that no text can look like the element's end.
inline std::string script_text(std::string json) {
  for (std::size_t at = 0; (at = json.find('<', at)) != std::string::npos;) json.replace(at, 1, "\\u003c");
  return json;
}

/// Writes the template; `part` writes the replacement of each {{name}}.
template <class Part>
void fill_template(std::string_view rest, std::ostream& out, const Part& part) {
  for (std::size_t at = rest.find("{{"); at != std::string_view::npos; at = rest.find("{{")) {
    const std::size_t end = rest.find("}}", at);
    out << rest.substr(0, at);
    part(rest.substr(at + 2, end - at - 2));
    rest.remove_prefix(end + 2);
  }
  out << rest;
}

}  // namespace trainyard::detail
