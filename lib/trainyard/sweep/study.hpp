#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard {

/// The value of one option as texts: one, or several if the option may be repeated.
using StudyValue = std::vector<std::string>;

/// A key and the values that it takes in turn.
struct StudyAxis {
  std::string key;
  std::vector<StudyValue> values;

  friend bool operator==(const StudyAxis&, const StudyAxis&) = default;
};

/// A key and its value, for each axis.
using StudyRow = std::vector<std::pair<std::string, StudyValue>>;

/// The rows of a sweep. Each grid has one row for every combination of its axes' values, with the last axis varying
/// fastest; the grids follow one another. Rows are computed on demand, so a study of a million rows takes as little
/// memory as its file.
class Study {
 public:
  using Grid = std::vector<StudyAxis>;

  /// `terms` are further inputs that determine the results of all rows; they only enter the digest. Throws InputError
  /// ("too-large") for more than 10^9 rows.
  Study(std::string name, std::vector<Grid> grids, std::vector<std::string> terms = {});

  const std::string& name() const { return name_; }
  std::uint64_t size() const { return size_; }
  StudyRow row(std::uint64_t index) const;
  /// Hash of the list of rows and the terms (64-bit FNV-1a, 16 hexadecimal digits).
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
///     cluster = ["2xV100", "4xV100"]     # a top-level key holds for every grid that does not set it
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
/// A value is a text, a number, a boolean, or a list of them that the key takes in turn. A list within that list is one
/// value of a repeatable option. Without [[grid]], the top-level keys are the only grid. `keys` are the known keys;
/// they determine the order of the axes in a row, whatever the order in the file. Throws InputError with line and
/// column: "toml", "unknown-key" with the nearest key, "type", "empty-grid" (a key without values, a file without
/// keys), "duplicate-value".
Study read_study(const std::filesystem::path& path, std::span<const std::string> keys);
/// Reads a study from a text. `file` is its name in messages, and its stem is the default name.
Study parse_study(std::string_view text, const std::string& file, std::span<const std::string> keys);

}  // namespace trainyard
