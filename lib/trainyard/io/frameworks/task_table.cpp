#include "trainyard/io/frameworks/task_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <ostream>

#include "trainyard/core/error.hpp"
#include "trainyard/io/formats/plan_file.hpp"
#include "trainyard/io/input_text.hpp"

namespace trainyard {
namespace {

using Action = TaskTable::Action;

/// Largest number of a stage or microbatch; the largest training runs have some thousands.
constexpr std::size_t kMostNumber = std::size_t{1} << 20;

constexpr char letter_of(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return 'F';
    case Pass::input_gradient:
      return 'I';
    case Pass::weight_gradient:
      return 'W';
    case Pass::backward:
      break;
  }
  return 'B';
}

std::string text_of(const Action& action) {
  return fmt::format("{}{}{}", action.stage, letter_of(action.pass), action.microbatch);
}

/// Removes the number at the front of a word and returns it.
std::optional<std::size_t> take_number(std::string_view& word) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{} || number > kMostNumber) return std::nullopt;
  word.remove_prefix(static_cast<std::size_t>(end - word.data()));
  return number;
}

/// Appends the actions of one cell to the row. Returns false if the cell is not an action.
bool take_cell(std::string_view cell, std::vector<Action>& row) {
  if (cell.empty()) return true;
  if (cell.front() == '(') {
    const std::size_t middle = cell.find(';'), end = cell.find(')');
    return middle < end && end != std::string_view::npos && cell.substr(end + 1) == "OVERLAP_F_B" &&
           take_cell(cell.substr(1, middle - 1), row) && take_cell(cell.substr(middle + 1, end - middle - 1), row);
  }
  const auto stage = take_number(cell);
  if (!stage) return false;
  std::size_t letters = 0;
  while (letters < cell.size() && (cell[letters] == '_' || (cell[letters] >= 'A' && cell[letters] <= 'Z'))) ++letters;
  const std::string_view kind = cell.substr(0, letters);
  cell.remove_prefix(letters);
  if (kind == "UNSHARD" || kind == "RESHARD" || kind == "REDUCE_GRAD") return cell.empty() || take_number(cell);
  const auto microbatch = take_number(cell);
  if (!microbatch || !cell.empty()) return false;
  if (kind == "SEND_F" || kind == "RECV_F" || kind == "SEND_B" || kind == "RECV_B") return true;
  for (const Pass pass : {Pass::forward, Pass::input_gradient, Pass::weight_gradient, Pass::backward})
    if (kind.size() == 1 && kind.front() == letter_of(pass)) {
      row.push_back({*stage, pass, *microbatch});
      return true;
    }
  return false;
}

std::string_view unquoted(std::string_view cell) {
  const auto is_edge = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '"'; };
  while (!cell.empty() && is_edge(cell.front())) cell.remove_prefix(1);
  while (!cell.empty() && is_edge(cell.back())) cell.remove_suffix(1);
  return cell;
}

}  // namespace

TaskTable parse_task_table(std::string_view text, const std::string& name) {
  TaskTable table;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const auto refuse = [&](std::size_t offset, std::string message, std::string help) {
    throw InputError({.code = "task-table",
                      .message = std::move(message),
                      .help = std::move(help),
                      .pointer = {},
                      .at = location_at(name, text, offset)});
  };
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::vector<Action> row;
    for (std::size_t at = begin; at <= end;) {
      const std::size_t comma = at + std::min(text.substr(at, end - at).find(','), end - at);
      const std::string_view cell = unquoted(text.substr(at, comma - at));
      if (!take_cell(cell, row))
        refuse(at, fmt::format("'{}' is not a pipeline action", cell.substr(0, 40)),
               "write STAGE, then F, I, W or B, then MICROBATCH, as in 0F1");
      at = comma + 1;
    }
    table.ranks.push_back(std::move(row));
    begin = end + 1;
  }
  if (std::ranges::all_of(table.ranks, [](const auto& row) { return row.empty(); }))
    refuse(0, "the schedule has no actions", "give one row per rank, as in 0F0,0F1,0B0,0B1");
  return table;
}

void write_task_table(const TaskTable& table, std::ostream& out) {
  for (const auto& row : table.ranks) {
    std::string line;
    for (const Action& action : row) line += (line.empty() ? "" : ",") + text_of(action);
    out << line << "\r\n";
  }
}

TaskTable task_table(PipelineSchedule schedule, std::size_t ranks, std::size_t microbatches, std::size_t chunks) {
  TaskTable table;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    table.ranks.emplace_back();
    for (const PipelineTask& task : pipeline_tasks(schedule, rank, ranks, microbatches, chunks))
      table.ranks.back().push_back({stage_of(schedule, rank, task.chunk, ranks), task.pass, task.microbatch});
  }
  return table;
}

KnownSchedule known_schedule(const TaskTable& table) {
  std::size_t stages = 0, microbatches = 0, actions = 0;
  for (const auto& row : table.ranks)
    for (const Action& action : row) {
      stages = std::max(stages, action.stage + 1);
      microbatches = std::max(microbatches, action.microbatch + 1);
      ++actions;
    }
  const std::size_t ranks = table.ranks.size(), chunks = stages / ranks;
  std::size_t other = 0;  // first rank whose row differs
  const auto refuse = [&](std::string message) {
    throw InputError({.code = "task-order",
                      .message = std::move(message),
                      .help = "give one of gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, v-half, v-min and dualpipe-v",
                      .at = {.line = static_cast<int>(other) + 1, .column = 1}});
  };
  // Each stage has a forward and a backward pass for every microbatch. A table with fewer actions is refused before
  // schedules of that size are built for comparison.
  if (ranks == 0 || stages % ranks != 0 || actions < 2 * stages * microbatches)
    refuse(fmt::format("{} ranks with {} stages and {} microbatches have {} actions, too few for forward and backward",
                       ranks, stages, microbatches, actions));
  std::optional<std::size_t> alike;  // matching actions of the nearest schedule
  std::string nearest = "no schedule has this number of stages per rank";
  for (const PipelineSchedule schedule : kPlanSchedules) {
    if (chunks_of(schedule, chunks) != chunks) continue;
    try {
      check_microbatches(schedule, ranks, microbatches);
    } catch (const InputError&) {
      continue;
    }
    const TaskTable known = task_table(schedule, ranks, microbatches, chunks);
    if (known == table) return {schedule, chunks, microbatches};
    std::size_t same = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto [mine, theirs] = std::ranges::mismatch(table.ranks[rank], known.ranks[rank]);
      same += static_cast<std::size_t>(mine - table.ranks[rank].begin());
      if (mine == table.ranks[rank].end() && theirs == known.ranks[rank].end()) continue;
      if (!alike || same > *alike) {
        alike = same;
        other = rank;
        nearest = fmt::format("{} is nearest: its rank {} has {} where the file has {}", name_of(schedule), rank,
                              theirs == known.ranks[rank].end() ? "nothing more" : text_of(*theirs),
                              mine == table.ranks[rank].end() ? "nothing more" : text_of(*mine));
      }
      break;
    }
  }
  refuse("the order of the tasks matches no known pipeline schedule: " + nearest);
  return {};
}

}  // namespace trainyard
