#include <fmt/format.h>

#include <ostream>

#include "trainyard/core/counted.hpp"
#include "trainyard/core/text.hpp"
#include "trainyard/sweep/page_template.hpp"
#include "trainyard/yard/page_sources.hpp"
#include "trainyard/yard/yard_table.hpp"

namespace trainyard {

void write_yard_page(const YardTable& table, std::span<const YardPoint> curves, const std::string& title,
                     std::ostream& out) {
  const std::string facts =
      fmt::format("{} on {}", counted(table.scores.size(), "placer"), counted(table.instances.size(), "instance"));
  detail::fill_template(detail::kYardHtml, out, [&](std::string_view name) {
    if (name == "title") out << detail::html_text(title);
    if (name == "facts") out << facts;
    if (name == "style") out << detail::kYardStyle;
    if (name == "script") out << detail::kYardScript;
    if (name == "script_hash") out << detail::kYardScriptHash;
    if (name == "data") out << detail::script_text(yard_json(table, curves));
  });
}

}  // namespace trainyard
