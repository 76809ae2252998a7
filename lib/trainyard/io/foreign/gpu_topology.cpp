#include "trainyard/io/foreign/gpu_topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/core/text.hpp"
#include "trainyard/io/foreign/log_lines.hpp"
#include "trainyard/io/json/findings.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostGpusHere = 64, kDeepestXml = 200;

/// The value of a tag's attribute: word="value". Escapes (&quot;) are not resolved; the attributes that are read have
/// none.
std::string_view attribute(std::string_view tag, std::string_view word) {
  for (std::size_t at = tag.find(word); at != std::string_view::npos; at = tag.find(word, at + 1)) {
    const std::size_t value = at + word.size() + 2;
    if (at == 0 || tag[at - 1] != ' ' || tag.substr(at + word.size(), 2) != "=\"") continue;
    return tag.substr(value, tag.find('"', value) - value);
  }
  return {};
}

struct FoundGpu {
  std::string address, name;
  // Numbers of the bridges around the GPU, from the outermost, without the host bridge.
  std::vector<std::size_t> bridges;
  std::size_t package;
};

/// Reads the parts of lstopo's XML that are needed: nested objects with their attributes, and infos.
class LstopoReader {
 public:
  LstopoReader(std::string_view text, const std::string& name) : text_(text), findings_(name, text) {}

  GpuTopology read() {
    bool whole = false;
    for (std::size_t at = text_.find('<'); at != std::string_view::npos && !whole; at = text_.find('<', at)) {
      const std::size_t end = end_of_tag(at);
      whole = read_tag(text_.substr(at + 1, end - at - 1));
      at = end;
    }
    if (!whole) fail(text_.size(), "the file is cut short: no </topology>");
    if (gpus_.empty())
      fail(0, "the file has no NVIDIA GPU among its PCI devices", "make the file with lstopo --of xml --filter io:all");
    sort_by(gpus_, &FoundGpu::address);
    return topology();
  }

 private:
  [[noreturn]] void fail(std::size_t at, std::string message,
                         std::string help = "make the file with lstopo --of xml > lstopo.xml") {
    findings_.replace(std::min(at, text_.size()), "topology", std::move(message), std::move(help));
    findings_.raise_if_any();
    throw std::logic_error("a finding was added");
  }

  /// Position of the ">" that ends the tag, outside quotes.
  std::size_t end_of_tag(std::size_t begin) {
    bool quoted = false;
    for (std::size_t at = begin; at < text_.size(); ++at) {
      if (text_[at] == '"') quoted = !quoted;
      if (text_[at] == '>' && !quoted) return at;
    }
    fail(begin, "the file is cut short within a tag");
  }

  /// Reads one tag. Returns true at the end of the topology.
  bool read_tag(std::string_view tag) {
    if (tag == "/topology") return true;
    if (tag == "/object") {
      if (open_.empty())
        fail(static_cast<std::size_t>(tag.data() - text_.data()), "this </object> has no matching <object>");
      open_.pop_back();
    } else if (tag.starts_with("object ")) {
      const Object object = object_of(tag);
      if (!tag.ends_with('/')) open_.push_back(object);
      if (open_.size() > kDeepestXml)
        fail(static_cast<std::size_t>(tag.data() - text_.data()), "objects are nested too deeply");
    } else if (tag.starts_with("info ") && !open_.empty() && open_.back().gpu) {
      const std::string_view key = attribute(tag, "name");
      if (key == "PCIDevice" || key == "GPUModel") gpus_[*open_.back().gpu].name = attribute(tag, "value");
    }
    return false;
  }

  struct Object {
    std::size_t package;
    std::optional<std::size_t> bridge, gpu;
  };

  Object object_of(std::string_view tag) {
    const std::string_view type = attribute(tag, "type");
    Object object{open_.empty() ? 0 : open_.back().package, std::nullopt, std::nullopt};
    if (type == "Package") object.package = ++packages_;
    if (type == "Bridge" && attribute(tag, "bridge_type") != "0-1") object.bridge = ++bridges_;
    const std::string_view kind = attribute(tag, "pci_type");
    if (type == "PCIDev" && kind.starts_with("03") && kind.find("[10de:") != std::string_view::npos) {
      if (gpus_.size() == kMostGpusHere) fail(static_cast<std::size_t>(tag.data() - text_.data()), "too many GPUs");
      object.gpu = gpus_.size();
      FoundGpu gpu{detail::lower_case(attribute(tag, "pci_busid")), "", {}, object.package};
      for (const Object& around : open_)
        if (around.bridge) gpu.bridges.push_back(*around.bridge);
      gpus_.push_back(std::move(gpu));
    }
    return object;
  }

  GpuTopology topology() const {
    GpuTopology result;
    std::map<std::size_t, std::vector<std::size_t>> below;  // GPUs by their outermost bridge
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      result.addresses.push_back(gpus_[i].address);
      result.names.push_back(gpus_[i].name);
      result.package.push_back(gpus_[i].package);
      if (!gpus_[i].bridges.empty()) below[gpus_[i].bridges.front()].push_back(i);
    }
    if (std::ranges::all_of(result.names, &std::string::empty)) result.names.clear();
    for (auto& [bridge, gpus] : below)
      if (gpus.size() > 1) result.bridges.push_back(std::move(gpus));
    std::ranges::sort(result.bridges);
    return result;
  }

  std::string_view text_;
  detail::FindingList findings_;
  std::vector<Object> open_;
  std::vector<FoundGpu> gpus_;
  std::size_t packages_ = 0, bridges_ = 0;
};

/// Replaces the terminal's color escapes by blanks, so that byte offsets stay valid.
std::string without_escapes(std::string_view text) {
  std::string plain{text};
  for (std::size_t at = plain.find('\x1b'); at != std::string::npos; at = plain.find('\x1b', at)) {
    const std::size_t end = std::min(plain.find('m', at), plain.size() - 1);
    std::fill(plain.begin() + static_cast<std::ptrdiff_t>(at), plain.begin() + static_cast<std::ptrdiff_t>(end) + 1,
              ' ');
  }
  return plain;
}

bool is_gpu_word(std::string_view word) {
  return word.starts_with("GPU") && word.size() > 3 && detail::number_of<std::size_t>(word.substr(3)).has_value();
}

/// The devices that a header names: GPUs, then network cards, up to "CPU". Empty if the line is not a header.
std::vector<std::string_view> header_devices(const detail::LogLine& line) {
  std::vector<std::string_view> devices;
  if (line.words.size() < 2 || !is_gpu_word(line.words[0])) return devices;
  for (const std::string_view word : line.words) {
    if (word == "CPU" || word == "NUMA") break;
    devices.push_back(word);
  }
  // The row of a single GPU begins like a header.
  return std::ranges::all_of(devices, [](std::string_view word) { return word != "X"; })
             ? devices
             : std::vector<std::string_view>{};
}

class TopoMatrixReader {
 public:
  TopoMatrixReader(std::string_view text, const std::string& name)
      : plain_(without_escapes(text)), findings_(name, text), lines_(detail::log_lines(plain_)) {}

  GpuTopology read() {
    std::size_t row = 0;
    for (const detail::LogLine& line : lines_) {
      if (devices_.empty()) {
        devices_ = header_devices(line);
        gpus_ = static_cast<std::size_t>(std::ranges::count_if(devices_, is_gpu_word));
      } else if (row < gpus_ && line.words.front() == devices_[row]) {
        read_row(line, row++);
      }
    }
    const std::size_t end = plain_.empty() ? 0 : plain_.size() - 1;
    if (gpus_ == 0)
      refuse(end, "the text has no header that begins with GPU0");
    else if (gpus_ > kMostGpusHere)
      refuse(end, "too many GPUs");
    else if (row < gpus_)
      refuse(end, fmt::format("the header has {} GPUs, but there are {} rows", gpus_, row));
    findings_.raise_if_any();
    return topology();
  }

 private:
  void refuse(std::size_t at, std::string message) {
    findings_.add(at, "topology", std::move(message), "give the output of nvidia-smi topo -m as it is");
  }

  void read_row(const detail::LogLine& line, std::size_t row) {
    const auto offset = static_cast<std::size_t>(line.words.front().data() - plain_.data());
    if (line.words.size() < devices_.size() + 1)
      return refuse(offset,
                    fmt::format("columns in this row: {}, in the header: {}", line.words.size() - 1, devices_.size()));
    std::vector<std::string_view>& cells = cells_.emplace_back(
        line.words.begin() + 1, line.words.begin() + 1 + static_cast<std::ptrdiff_t>(devices_.size()));
    for (const std::string_view cell : cells) {
      const bool known = cell == "X" || cell == "PIX" || cell == "PXB" || cell == "PHB" || cell == "NODE" ||
                         cell == "SYS" || cell == "PSB" || cell == "SOC" || cell == "N/A" || links_of(cell) > 0;
      if (!known)
        return refuse(static_cast<std::size_t>(cell.data() - plain_.data()),
                      fmt::format("'{}' is not a connection: expected X, NV#, PIX, PXB, PHB, NODE or SYS", cell));
    }
    if (cells[row] != "X") refuse(offset, fmt::format("{} has no X in its own column", devices_[row]));
    affinity_.emplace_back(line.words.size() > devices_.size() + 1 ? line.words[devices_.size() + 1] : "");
  }

  static int links_of(std::string_view cell) {
    if (!cell.starts_with("NV")) return 0;
    return detail::number_of<int>(cell.substr(2)).value_or(0);
  }

  GpuTopology topology() const {
    GpuTopology result;
    std::map<std::string_view, std::size_t> packages;
    for (const std::string_view word : affinity_)
      result.package.push_back(packages.try_emplace(word, packages.size()).first->second);
    // GPUs that are close to each other, or to the device of one column, are below one switch.
    std::vector<std::size_t> group(gpus_);
    std::iota(group.begin(), group.end(), std::size_t{0});
    const auto near = [&](std::size_t i, std::size_t j) {
      return cells_[i][j] == "PIX" || cells_[i][j] == "PXB" || cells_[i][j] == "X";
    };
    const auto join = [&](std::size_t a, std::size_t b) {
      std::ranges::replace(group, std::max(a, b), std::min(a, b));
    };
    for (std::size_t j = 0; j < devices_.size(); ++j)
      for (std::size_t a = 0; a < gpus_; ++a)
        for (std::size_t b = a + 1; b < gpus_; ++b)
          if (near(a, j) && near(b, j)) join(group[a], group[b]);
    for (std::size_t i = 0; i < gpus_; ++i) {
      result.nvlinks.emplace_back();
      for (std::size_t j = 0; j < gpus_; ++j) result.nvlinks[i].push_back(links_of(cells_[i][j]));
      std::vector<std::size_t> members;
      for (std::size_t j = i; j < gpus_; ++j)
        if (group[j] == i) members.push_back(j);
      if (members.size() > 1) result.bridges.push_back(std::move(members));
    }
    return result;
  }

  std::string plain_;
  detail::FindingList findings_;
  std::vector<detail::LogLine> lines_;
  std::vector<std::string_view> devices_;
  std::size_t gpus_ = 0;
  std::vector<std::vector<std::string_view>> cells_;
  std::vector<std::string_view> affinity_;
};

}  // namespace

bool is_lstopo(std::string_view text) {
  const std::size_t root = text.find("<topology");
  return text.starts_with("<?xml") && root != std::string_view::npos && root < 4096;
}

bool is_topo_matrix(std::string_view text) {
  const std::string plain = without_escapes(text);
  const auto lines = detail::log_lines(plain);
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    const auto devices = header_devices(lines[i]);
    if (!devices.empty() && lines[i + 1].words.size() > devices.size() && lines[i + 1].words[0] == devices[0] &&
        lines[i + 1].words[1] == "X")
      return true;
  }
  return false;
}

GpuTopology parse_gpu_topology(std::string_view text, const std::string& name) {
  if (is_lstopo(text)) return LstopoReader{text, name}.read();
  return TopoMatrixReader{text, name}.read();
}

}  // namespace trainyard
