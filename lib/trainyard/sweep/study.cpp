#include "trainyard/sweep/study.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "trainyard/core/error.hpp"
#include "trainyard/core/fnv.hpp"
#include "trainyard/core/limits.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/json_fields.hpp"
#include "trainyard/io/toml/toml_value.hpp"

namespace trainyard {
namespace {

using namespace detail;

std::uint64_t rows_of(const Study::Grid& grid) {
  std::uint64_t rows = 1;
  for (const StudyAxis& axis : grid) {
    rows *= axis.values.size();
    if (rows > limits::kStudyRows) return rows;
  }
  return rows;
}

class StudyReader {
 public:
  StudyReader(std::string_view text, const std::string& file, std::span<const std::string> keys)
      : keys_(keys), findings_(file, text), root_(parse_toml(text, file)) {
    name_ = std::filesystem::path{file}.stem().string();
  }

  Study run() {
    const toml::node* grids = root_.get("grid");
    std::vector<Study::Grid> found;
    if (const toml::node* name = root_.get("name")) {
      if (const auto text = name->value<std::string>(); text && !text->empty())
        name_ = *text;
      else
        fail(*name, "type", "\"name\" must be a text that is not empty", "write for example name = \"scaling\"");
    }
    const Study::Grid common = read_grid(root_, true);
    if (!grids) {
      found.push_back(common);
    } else if (const toml::array* tables = grids->as_array(); tables && tables->is_array_of_tables()) {
      for (const toml::node& table : *tables) {
        Study::Grid grid = read_grid(*table.as_table(), false);
        for (const StudyAxis& axis : common)
          if (std::ranges::find(grid, axis.key, &StudyAxis::key) == grid.end()) grid.push_back(axis);
        sort_by(grid, [&](const StudyAxis& axis) { return std::ranges::find(keys_, axis.key); });
        found.push_back(std::move(grid));
      }
    } else {
      fail(*grids, "type", "\"grid\" must be a list of tables", "write [[grid]] above the keys of each grid");
    }
    findings_.raise_if_any();
    if (std::ranges::all_of(found, &Study::Grid::empty))
      refuse("empty-grid", fmt::format("study '{}' has no keys", name_),
             "give model = \"resnet50\", cluster = \"4xV100\", placer = [\"heft\", \"auto\"]");
    return {std::move(name_), std::move(found)};
  }

 private:
  void fail(const toml::node& at, std::string code, std::string message, std::string help = "") {
    findings_.add(at.source(), "", std::move(code), std::move(message), std::move(help));
  }

  Study::Grid read_grid(const toml::table& table, bool is_root) {
    Study::Grid grid;
    for (const std::string& key : keys_)
      if (const toml::node* node = table.get(key)) grid.push_back({key, read_values(*node, key)});
    for (const auto& [key, node] : table) {
      const std::string name{key.str()};
      if (std::ranges::find(keys_, name) != keys_.end() || (is_root && (name == "name" || name == "grid"))) continue;
      if (is_remark(name)) continue;
      std::string help = did_you_mean(name, {keys_.begin(), keys_.end()});
      if (help.empty()) help = fmt::format("the keys of a study are {}", fmt::join(keys_, ", "));
      fail(node, "unknown-key", fmt::format("a study has no key '{}'", name), help);
    }
    return grid;
  }

  std::vector<StudyValue> read_values(const toml::node& node, const std::string& key) {
    const toml::array* list = node.as_array();
    if (!list) return {{read_text(node, key)}};
    std::vector<StudyValue> values;
    std::set<StudyValue> seen;
    for (const toml::node& item : *list) {
      StudyValue value;
      if (const toml::array* several = item.as_array())
        for (const toml::node& each : *several) value.push_back(read_text(each, key));
      else
        value.push_back(read_text(item, key));
      if (value.empty())
        fail(item, "empty-grid", fmt::format("a list in the values of '{}' is empty", key),
             "leave it out, or give it a value");
      else if (!seen.insert(value).second)
        fail(item, "duplicate-value", fmt::format("'{}' takes the value {} twice", key, fmt::join(value, ", ")),
             "give each value once; to repeat rows with other random numbers, use seed = [1, 2, 3]");
      values.push_back(std::move(value));
    }
    if (values.empty())
      fail(node, "empty-grid", fmt::format("'{}' has no values", key), "leave the key out, or give a value");
    return values;
  }

  std::string read_text(const toml::node& node, const std::string& key) {
    if (const auto text = node.value_exact<std::string>()) return *text;
    if (const auto whole = node.value_exact<std::int64_t>()) return fmt::format("{}", *whole);
    if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);
    if (const auto truth = node.value_exact<bool>()) return *truth ? "true" : "false";
    fail(node, "type", fmt::format("a value of '{}' must be a text, a number, or true or false", key));
    return "";
  }

  const std::span<const std::string> keys_;
  TomlFindings findings_;
  const toml::table root_;
  std::string name_;
};

}  // namespace

Study::Study(std::string name, std::vector<Grid> grids, std::vector<std::string> terms)
    : name_(std::move(name)), grids_(std::move(grids)), terms_(std::move(terms)) {
  for (const Grid& grid : grids_) size_ = std::min<std::uint64_t>(size_ + rows_of(grid), limits::kStudyRows + 1);
  if (size_ > limits::kStudyRows)
    refuse("too-large", fmt::format("study '{}' has more than {} rows", name_, limits::kStudyRows),
           "leave out values, or divide it into several studies");
}

StudyRow Study::row(std::uint64_t index) const {
  std::size_t g = 0;
  for (; index >= rows_of(grids_[g]); ++g) index -= rows_of(grids_[g]);
  const Grid& grid = grids_[g];
  StudyRow row(grid.size());
  for (std::size_t a = grid.size(); a-- > 0; index /= grid[a].values.size())
    row[a] = {grid[a].key, grid[a].values[index % grid[a].values.size()]};
  return row;
}

std::string Study::digest() const {
  Fnv1a hash;
  const auto add = [&](std::string_view text) {
    hash.add(text);
    hash.end();
  };
  for (const Grid& grid : grids_) {
    add("grid");
    for (const StudyAxis& axis : grid) {
      add(axis.key);
      for (const StudyValue& value : axis.values) {
        add("value");
        for (const std::string& text : value) add(text);
      }
    }
  }
  for (const std::string& term : terms_) add(term);
  return fmt::format("{:016x}", hash.value());
}

Study parse_study(std::string_view text, const std::string& file, std::span<const std::string> keys) {
  return StudyReader{text, file, keys}.run();
}

Study read_study(const std::filesystem::path& path, std::span<const std::string> keys) {
  return parse_study(read_input(path, limits::kToml), input_name(path), keys);
}

}  // namespace trainyard
