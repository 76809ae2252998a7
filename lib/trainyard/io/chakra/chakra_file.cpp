#include "trainyard/io/chakra/chakra_file.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <unordered_set>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/json_fields.hpp"
#include "trainyard/io/json/json_parser.hpp"

namespace trainyard {
namespace {

using namespace detail;
using protozero::pbf_reader;
using Wire = protozero::pbf_wire_type;

constexpr std::int64_t kLastType = static_cast<std::int64_t>(ChakraNode::Type::collective);
constexpr std::uint64_t kLongestMicroseconds = std::uint64_t{1} << 50;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;

[[noreturn]] void refuse_chakra(const std::string& file, std::string message, std::string help) {
  refuse_file(file, "chakra", std::move(message), std::move(help));
}

std::string_view view_of(pbf_reader& reader) {
  const protozero::data_view view = reader.get_view();
  return {view.data(), view.size()};
}

/// The value of an attribute: an integer of any kind, or a text.
struct AttributeValue {
  std::string_view name, text;
  std::optional<std::int64_t> number = {};
};

AttributeValue read_chakra_attribute(pbf_reader reader) {
  AttributeValue attribute;
  while (reader.next()) {
    const Wire wire = reader.wire_type();
    const std::uint32_t field = reader.tag();
    if (field == 1 && wire == Wire::length_delimited)
      attribute.name = view_of(reader);
    else if ((field == 29 || field == 31) && wire == Wire::length_delimited)
      attribute.text = view_of(reader);
    else if ((field == 7 || field == 9 || field == 11 || field == 13 || field == 27) && wire == Wire::varint)
      attribute.number = reader.get_int64();
    else if ((field == 15 || field == 17) && wire == Wire::varint)
      attribute.number = reader.get_sint64();
    else if ((field == 19 || field == 23) && wire == Wire::fixed32)
      attribute.number = field == 19 ? static_cast<std::int64_t>(reader.get_fixed32()) : reader.get_sfixed32();
    else if ((field == 21 || field == 25) && wire == Wire::fixed64)
      attribute.number = reader.get_sfixed64();
    else
      reader.skip();
  }
  return attribute;
}

/// Where the node keeps the number of an attribute; null for other attributes.
std::int64_t* number_at(ChakraNode& node, std::string_view name) {
  if (name == "comm_tag") return &node.tag;
  if (name == "comm_size") return &node.bytes;
  if (name == "comm_src") return &node.source.emplace();
  if (name == "comm_dst") return &node.destination.emplace();
  if (name == "comm_type") return &node.collective.emplace();
  if (name == "num_ops") return &node.flops;
  if (name == "tensor_size") return &node.accessed_bytes;
  return nullptr;
}

void set_attribute(ChakraNode& node, std::string_view name, std::int64_t number, std::string_view text) {
  if (std::int64_t* const kept = number_at(node, name))
    *kept = number;
  else if (name == "is_cpu_op")
    node.on_host = number != 0;
  else if (name == "rf_id")
    node.has_caller = true;
  else if (name == "pg_name")
    node.group = text.empty() && number != 0 ? std::to_string(number) : std::string{text};
}

void append_ids(std::vector<std::uint64_t>& ids, pbf_reader& reader) {
  if (reader.wire_type() == Wire::varint) return ids.push_back(reader.get_uint64());
  if (reader.wire_type() != Wire::length_delimited) return reader.skip();
  for (const std::uint64_t id : reader.get_packed_uint64()) ids.push_back(id);
}

class ChakraReader {
 public:
  ChakraReader(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  ChakraTrace messages() {
    std::size_t at = 0;
    for (bool first = true; at < bytes_.size(); first = false) {
      const std::size_t begin = at;
      const std::uint64_t length = read_length(at);
      if (length > bytes_.size() - at)
        refuse_chakra(file_,
                      fmt::format("the message at byte {} has {} bytes, but only {} are left in the file", begin,
                                  length, bytes_.size() - at),
                      "the file is cut short or not a Chakra trace: write or copy it again");
      const std::string_view message = bytes_.substr(at, static_cast<std::size_t>(length));
      at += static_cast<std::size_t>(length);
      try {
        if (first)
          read_metadata({message.data(), message.size()});
        else
          trace_.nodes.push_back(read_message({message.data(), message.size()}, begin));
      } catch (const protozero::exception& fault) {
        refuse_chakra(file_, fmt::format("the message at byte {} is damaged ({})", begin, fault.what()),
                      "give a trace of Chakra's schema 0.0.4 (et_def.proto)");
      }
    }
    return finish();
  }

  ChakraTrace json() {
    FindingList findings{file_, bytes_};
    JsonTree tree;
    parse_json(bytes_, tree, findings, {"workload_graph", [&](JsonValue, JsonValue node) {
                                          read_json_node(node, findings);
                                          return !findings.full();
                                        }});
    findings.raise_if_any();
    return finish();
  }

 private:
  std::uint64_t read_length(std::size_t& at) const {
    std::uint64_t length = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at >= bytes_.size())
        refuse_chakra(file_, fmt::format("the file ends within the length of a message, at byte {}", at),
                      "the file is cut short: write or copy it again");
      const auto byte = static_cast<unsigned char>(bytes_[at++]);
      length |= std::uint64_t{byte & 127u} << shift;
      if ((byte & 128u) == 0) return length;
    }
    refuse_chakra(file_, fmt::format("the length of the message before byte {} is invalid", at),
                  "the file is damaged or not a Chakra trace");
  }

  void read_metadata(pbf_reader reader) {
    while (reader.next()) {
      if (reader.tag() == 1 && reader.wire_type() == Wire::length_delimited)
        trace_.version = view_of(reader);
      else
        reader.skip();
    }
  }

  ChakraNode read_message(pbf_reader reader, std::size_t at) {
    ChakraNode node;
    node.at = at;
    std::int64_t type = 0;
    while (reader.next()) {
      const Wire wire = reader.wire_type();
      const std::uint32_t field = reader.tag();
      if (field == 1 && wire == Wire::varint)
        node.id = reader.get_uint64();
      else if (field == 2 && wire == Wire::length_delimited)
        node.name = view_of(reader);
      else if (field == 3 && wire == Wire::varint)
        type = reader.get_int64();
      else if (field == 4)
        append_ids(node.control, reader);
      else if (field == 5)
        append_ids(node.data, reader);
      else if (field == 7 && wire == Wire::varint)
        node.duration = reader.get_uint64();
      else if (field == 10 && wire == Wire::length_delimited) {
        const AttributeValue attribute = read_chakra_attribute(reader.get_message());
        if (!attribute.number && (number_at(node, attribute.name) || attribute.name == "is_cpu_op"))
          refuse_chakra(file_,
                        fmt::format("node at byte {}: its attribute {} is not a whole number", at, attribute.name),
                        "give it as one of the integer types of Chakra's schema 0.0.4 (et_def.proto)");
        set_attribute(node, attribute.name, attribute.number.value_or(0), attribute.text);
      } else
        reader.skip();
    }
    set_type(node, type);
    return node;
  }

  void set_type(ChakraNode& node, std::int64_t type) {
    if (type < 1 || type > kLastType)
      refuse_chakra(file_, fmt::format("node {} at byte {} has the unknown type {}", node.id, node.at, type),
                    "types are 1 (metadata) to 7 (collective): the file is damaged or has another schema");
    node.type = static_cast<ChakraNode::Type>(type);
  }

  void read_json_node(const JsonValue& value, FindingList& findings) {
    if (!expect(value, JsonKind::object, findings)) return;
    ChakraNode node;
    node.at = value.begin_offset();
    std::int64_t type = 0, id = 0, duration = 0;
    const auto ids = [&](const JsonValue& list, std::vector<std::uint64_t>& into) {
      if (!expect(list, JsonKind::array, findings)) return;
      std::int64_t number = 0;
      for (const JsonValue each : list.children())
        if (read_count(each, number, "", "chakra", findings)) into.push_back(static_cast<std::uint64_t>(number));
    };
    for (const JsonValue member : value.children()) {
      const std::string_view key = member.key();
      if (key == "Id" || key == "id")
        read_count(member, id, "", "chakra", findings);
      else if (key == "Name" || key == "name")
        read(member, node.name, findings);
      else if (key == "NodeType" || key == "type")
        read_count(member, type, "", "chakra", findings);
      else if (key == "ctrlDeps" || key == "ctrl_deps")
        ids(member, node.control);
      else if (key == "dataDeps" || key == "data_deps")
        ids(member, node.data);
      else if (key == "runtime" || key == "duration_micros")
        read_count(member, duration, "microseconds", "chakra", findings);
      else if (std::int64_t* const kept = number_at(node, key))
        read_count(member, *kept, "", "chakra", findings);
      else {
        std::int64_t number = member.text() == "true" ? 1 : 0;
        std::from_chars(member.text().data(), member.text().data() + member.text().size(), number);
        set_attribute(node, key, number, member.text());
      }
    }
    node.id = static_cast<std::uint64_t>(id);
    node.duration = static_cast<std::uint64_t>(duration);
    set_type(node, type);
    trace_.nodes.push_back(std::move(node));
  }

  /// Checks the nodes of either form and returns the trace.
  ChakraTrace finish() {
    if (trace_.nodes.empty())
      refuse_chakra(file_, "the trace has no nodes", "give a file that Chakra's tools have written");
    std::unordered_set<std::uint64_t> ids;
    for (const ChakraNode& node : trace_.nodes) {
      const auto refuse = [&](const std::string& what, const char* help) {
        refuse_chakra(file_, fmt::format("node {} at byte {}: {}", node.id, node.at, what), help);
      };
      if (!ids.insert(node.id).second) refuse("its id occurs twice", "give every node of a rank a unique id");
      if (!accepts_json('"' + escaped(node.name) + '"'))
        refuse("its name is not UTF-8", "write the trace with names in UTF-8, as protocol buffers require");
      if (node.duration > kLongestMicroseconds || node.bytes < 0 || node.bytes > kMostBytes || node.flops < 0 ||
          node.accessed_bytes < 0 || node.accessed_bytes > kMostBytes)
        refuse("its duration or one of its sizes is negative or too large", "the trace is damaged");
      if (node.type == ChakraNode::Type::send && !node.destination)
        refuse("a send has no comm_dst", "give the rank that receives");
      if (node.type == ChakraNode::Type::receive && !node.source)
        refuse("a receive has no comm_src", "give the rank that sends");
    }
    return std::move(trace_);
  }
  /// Replaces characters that JSON strings cannot contain for reasons other than their encoding.
  static std::string escaped(std::string text) {
    for (char& c : text)
      if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ') c = '_';
    return text;
  }

  std::string_view bytes_;
  const std::string& file_;
  ChakraTrace trace_;
};

/// Appends a message after its length (a varint).
void append_message(std::string& out, const std::string& message) {
  std::size_t length = message.size();
  for (; length > 127; length >>= 7) out += static_cast<char>((length & 127) | 128);
  out += static_cast<char>(length);
  out += message;
}

/// Adds an attribute. Fields by type: 7 int32, 9 int64, 13 uint64, 27 bool, 29 string.
void add_attribute(protozero::pbf_writer& node, const char* name, std::uint32_t field, std::int64_t value) {
  protozero::pbf_writer attribute{node, 10};
  attribute.add_string(1, name);
  attribute.add_int64(field, value);
}

std::string message_of(const ChakraNode& node) {
  std::string message;
  protozero::pbf_writer out{message};
  if (node.id != 0) out.add_uint64(1, node.id);
  if (!node.name.empty()) out.add_string(2, node.name);
  out.add_int32(3, static_cast<std::int32_t>(node.type));
  out.add_packed_uint64(4, node.control.begin(), node.control.end());
  out.add_packed_uint64(5, node.data.begin(), node.data.end());
  if (node.duration != 0) out.add_uint64(7, node.duration);
  add_attribute(out, "is_cpu_op", 27, node.on_host);
  if (node.has_caller) add_attribute(out, "rf_id", 9, 0);
  if (node.collective) add_attribute(out, "comm_type", 9, *node.collective);
  if (node.source) add_attribute(out, "comm_src", 7, *node.source);
  if (node.destination) add_attribute(out, "comm_dst", 7, *node.destination);
  if (node.tag != 0 || node.source || node.destination) add_attribute(out, "comm_tag", 7, node.tag);
  if (node.bytes != 0) add_attribute(out, "comm_size", 9, node.bytes);
  if (node.type == ChakraNode::Type::compute || node.flops != 0) add_attribute(out, "num_ops", 9, node.flops);
  if (node.type == ChakraNode::Type::compute || node.accessed_bytes != 0)
    add_attribute(out, "tensor_size", 13, node.accessed_bytes);
  if (!node.group.empty()) {
    protozero::pbf_writer attribute{out, 10};
    attribute.add_string(1, "pg_name");
    attribute.add_string(29, node.group);
  }
  return message;
}

}  // namespace

bool is_chakra_json(std::string_view begin) { return first_key(begin) == "workload_graph"; }

ChakraTrace parse_chakra(std::string_view bytes, const std::string& name) {
  ChakraReader reader{bytes, name};
  return is_chakra_json(bytes.substr(0, 256)) ? reader.json() : reader.messages();
}

std::string chakra_messages(const ChakraTrace& trace) {
  std::string bytes, metadata;
  if (!trace.version.empty()) protozero::pbf_writer{metadata}.add_string(1, trace.version);
  append_message(bytes, metadata);
  for (const ChakraNode& node : trace.nodes) append_message(bytes, message_of(node));
  return bytes;
}

}  // namespace trainyard
