#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace trainyard::test {

/// The data in a page.
inline nlohmann::json page_data(const std::string& page) {
  const std::string begin = R"(<script type="application/json" id="data">)";
  const std::size_t from = page.find(begin) + begin.size();
  return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
}

}  // namespace trainyard::test
