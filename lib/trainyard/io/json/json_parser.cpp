#include "trainyard/io/json/json_parser.hpp"

#include <nlohmann/json.hpp>

namespace trainyard::detail {
namespace {

using nlohmann::json;

/// Records the parse error and ignores everything else.
class Witness : public nlohmann::json_sax<json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(json::number_integer_t) override { return true; }
  bool number_unsigned(json::number_unsigned_t) override { return true; }
  bool number_float(json::number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(std::string&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::detail::exception& error) override {
    fault = JsonFault{position, last_token, error.what(), error.id};
    return false;
  }

  std::optional<JsonFault> fault;
};

}  // namespace

std::optional<JsonFault> explain_json(std::string_view text) {
  Witness witness;
  json::sax_parse(text, &witness);
  return std::move(witness.fault);
}

bool unescape_json(std::string_view token, std::string& text) {
  json value = json::parse(token, nullptr, false);
  if (!value.is_string()) return false;
  text = std::move(value.get_ref<std::string&>());
  return true;
}

bool accepts_json(std::string_view token) { return json::accept(token); }

}  // namespace trainyard::detail
