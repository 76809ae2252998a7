#include <nlohmann/json.hpp>

#include "check_result.hpp"

namespace trainyard::program {

std::string check_json(const std::vector<CheckResult>& results) {
  using Json = nlohmann::ordered_json;
  Json files = Json::array(), errors = Json::array();
  for (const CheckResult& result : results) {
    files.push_back({{"file", result.file},
                     {"kind", result.kind},
                     {"good", result.findings.empty()},
                     {"what", result.what},
                     {"notes", result.notes}});
    for (const Finding& finding : result.findings)
      errors.push_back({{"code", finding.code},
                        {"file", finding.at.file},
                        {"line", finding.at.line},
                        {"column", finding.at.column},
                        {"pointer", finding.pointer},
                        {"message", finding.message},
                        {"help", finding.help}});
  }
  Json object = {{"format", "trainyard-result/1"}, {"verb", "check"}};
  object["files"] = std::move(files);
  object["errors"] = std::move(errors);
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace trainyard::program
