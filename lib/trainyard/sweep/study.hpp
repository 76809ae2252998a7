#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard {

/// The texts that one option is given: one, or several where it may be repeated.
using StudyValue = std::vector<std::string>;

/// A key and the values that it takes in turn.
struct StudyAxis {
  std::string key;
  std::vector<StudyValue> values;

  friend bool operator==(const StudyAxis&, const StudyAxis&) = default;
};

/// A key and its value, for each axis.
using StudyRow = std::vector<std::pair<std::string, StudyValue>>;

/// The rows of a sweep: for each grid one row for every combination of its axes' values, the last axis fastest, grid
/// after grid. Rows are made when they are asked for, so that a study of a million rows is as small as its file.
class Study {
 public:
  using Grid = std::vector<StudyAxis>;

  /// `terms`: what else decides the results of all rows. Throws InputError ("too-large") beyond 10^9 rows.
  Study(std::string name, std::vector<Grid> grids, std::vector<std::string> terms = {});

  const std::string& name() const { return name_; }
  std::uint64_t size() const { return size_; }
  StudyRow row(std::uint64_t index) const;
  /// 16 hexadecimal digits that tell this list of rows, and its terms, from others (FNV-1a, 64 bits).
  std::string digest() const;

 private:
  std::string name_;
  std::vector<Grid> grids_;
  std::vector<std::string> terms_;
  std::uint64_t size_ = 0;
};

/// A study file:
///
///     name = "scaling"                   # default: the file's stem
///     cluster = ["2xV100", "4xV100"]     # a key at the top holds for every grid that does not have it itself
///
///     [[grid]]
///     model = ["resnet50", "vgg16"]
///     batch = [32, 64]
///     placer = ["heft", "data-parallel"]
///
///     [[grid]]
///     model = "bert_base"
///     placer = "pipeline"
///     parameter = ["microbatches=4", ["microbatches=8", "schedule=gpipe"]]
///
/// A value is a text, a number or a truth, or a list of them that the key takes in turn; a list in that list is one
/// value of an option that may be repeated. Without [[grid]] the top is the only grid. `keys` are the known ones: they
/// order the axes of a row, whatever the order in the file. Throws InputError, with line and column: "toml",
/// "unknown-key" with the nearest one, "type", "empty-grid" (a key without values, a file without keys),
/// "duplicate-value".
Study read_study(const std::filesystem::path& path, std::span<const std::string> keys);
/// A study from its text; `file` is its name in messages, and its stem the default name.
Study parse_study(std::string_view text, const std::string& file, std::span<const std::string> keys);

}  // namespace trainyard
