#include <cstddef>
#include <cstdint>

#include "fuzz/fuzz.hpp"
#include "trainyard/io/frameworks/device_map.hpp"
#include "trainyard/io/frameworks/framework_plan.hpp"
#include "trainyard/io/frameworks/split_spec.hpp"
#include "trainyard/io/frameworks/task_table.hpp"

using namespace trainyard;

/// Gives each text to all readers: device maps, split specs and their tables, plans in the terms of other frameworks.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  fuzz::check_reader(
      text, [](std::string_view each) { return parse_device_map(each, "input"); },
      [](const DeviceMap& map, std::ostream& out) { write_device_map(map, out); });
  fuzz::check_reader(
      text, [](std::string_view each) { return parse_split_spec(each, "input"); },
      [](const SplitSpec& spec, std::ostream& out) { write_split_spec(spec, out); });
  fuzz::check_reader(
      text, [](std::string_view each) { return parse_task_table(each, "input"); },
      [](const TaskTable& table, std::ostream& out) { write_task_table(table, out); });
  fuzz::check_reader(
      text,
      [](std::string_view each) {
        const TaskTable table = parse_task_table(each, "input");
        try {
          known_schedule(table);
        } catch (const InputError&) {
        }
        return table;
      },
      [](const TaskTable& table, std::ostream& out) { write_task_table(table, out); });
  const PlanGround ground{.blocks = {"embedding", "h.0", "h.1", "h.2", "h.3", "head"}, .batch = 16, .devices = 8};
  if (text.find("trainyard-split") == std::string_view::npos)  // split specs name files
    fuzz::check_reader(
        text, [&](std::string_view each) { return parse_any_plan(each, "input", ground).file; },
        [&](const PlanFile&, std::ostream& out) { out << text; });
  return 0;
}
