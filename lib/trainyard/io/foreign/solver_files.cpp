#include "trainyard/io/foreign/solver_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/limits.hpp"
#include "trainyard/core/printable.hpp"
#include "trainyard/place/pesto/makespan_program.hpp"

namespace trainyard {
namespace {

/// Distinct names of letters, digits and underscores, cut to 100 characters before a suffix is added.
std::vector<std::string> plain_names(const std::vector<std::string>& names) {
  std::set<std::string> taken;
  std::vector<std::string> plain;
  for (const std::string& name : names) {
    std::string word = name.substr(0, 100);
    for (char& c : word)
      if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    while (!taken.insert(word).second) word += fmt::format("_{}", plain.size());
    plain.push_back(word);
  }
  return plain;
}

std::string number(double value) { return fmt::format("{:.17g}", value); }

template <class Items, class Text>
std::string list(const Items& items, const Text& text) {
  std::string all;
  for (const auto& item : items) all += (all.empty() ? "" : ", ") + text(item);
  return "[" + all + "]";
}

/// A two-dimensional MiniZinc array: [| 1, 2 | 3, 4 |].
template <class Cell>
std::string table(std::size_t rows, std::size_t columns, const Cell& cell) {
  std::string all = "[|";
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column)
      all += (column > 0 ? ", " : row > 0 ? "\n  | " : " ") + cell(row, column);
  }
  return all + " |]";
}

}  // namespace

void write_lp(const Problem& problem, const MakespanProgram& makespan, std::ostream& out) {
  const LinearProgram& linear = makespan.program().linear;
  const std::vector<std::string> names = plain_names(makespan.names());
  out << "\\ Placement and order of " << problem.op_count() << " ops on " << problem.device_count()
      << " devices; times in " << number(makespan.unit_ns()) << " ns\nMinimize\n makespan: C\nSubject To\n";
  for (std::size_t row = 0; row < linear.rows(); ++row) {
    if (linear.terms(row).empty()) continue;
    out << fmt::format(" r{}:", row);
    std::size_t length = 0;
    for (const auto& term : linear.terms(row)) {
      const std::string text = fmt::format(" {} {} {}", term.coefficient < 0 ? "-" : "+",
                                           number(std::abs(term.coefficient)), names[term.column]);
      if ((length += text.size()) > 200) {
        out << "\n ";
        length = text.size();
      }
      out << text;
    }
    const bool equal = linear.row_lower(row) == linear.row_upper(row);
    out << (equal ? " = " : " >= ") << number(linear.row_lower(row)) << "\n";
  }
  out << "Bounds\n";
  for (std::size_t column = 0; column < linear.columns(); ++column)
    out << " " << number(linear.lower(column)) << " <= " << names[column] << " <= " << number(linear.upper(column))
        << "\n";
  if (!makespan.program().whole.empty()) {
    out << "Generals\n";
    for (const std::uint32_t column : makespan.program().whole) out << " " << names[column] << "\n";
  }
  out << "End\n";
}

namespace {

/// The transfer of a tensor to a device.
struct Crossing {
  TensorId tensor;
  DeviceId to;
};

std::string op_number(OpId op) { return fmt::format("{}", op.index() + 1); }

/// Writes the parts of a MiniZinc model, in their order.
class MiniZinc {
 public:
  MiniZinc(const Problem& problem, std::ostream& out)
      : problem_(problem),
        graph_(problem.graph()),
        cluster_(problem.cluster()),
        ops_(problem.op_count()),
        devices_(problem.device_count()),
        out_(out) {
    for (const TensorId tensor : graph_.tensors())
      for (const DeviceId to : problem.devices())
        if (std::ranges::any_of(graph_.consumers(tensor), [&](OpId reader) { return problem.can_run(reader, to); }))
          crossings_.push_back({tensor, to});
    const std::size_t tables = 1 + (devices_ > 1 ? 1 + cluster_.channels().size() : 0);  // an upper bound
    if ((ops_ + crossings_.size() * tables) > limits::kTableNumbers / devices_)
      refuse("too-large", fmt::format("the tables of the model have more than {} numbers", limits::kTableNumbers),
             "give a smaller graph (--coarsen), or fewer devices");
  }

  void write(Nanoseconds limit) {
    write_numbers(limit);
    write_decisions();
    write_precedence();
    if (!crossings_.empty() && devices_ > 1) {
      write_moves();
      for (const ChannelId channel : cluster_.channels()) write_channel(channel);
    }
    out_ << "\nsolve minimize makespan;\n"
         << "output [\"makespan \\(makespan)\\n\"] ++ [\"\\(op_name[i]) \\(device[i]) \\(start[i])\\n\" | i in "
            "1..ops];\n";
  }

 private:
  std::string quoted_name(OpId op) const {
    std::string name;
    for (const char c : printable(graph_.name(op))) name += c == '"' || c == '\\' ? '_' : c;
    return "\"" + name + "\"";
  }

  void write_numbers(Nanoseconds limit) {
    out_ << "% Placement and order of " << ops_ << " ops on " << devices_ << " devices; times in ns.\n"
         << "include \"cumulative.mzn\";\n"
         << "int: limit = " << limit.count << ";\n"
         << "int: ops = " << ops_ << "; int: devices = " << devices_ << "; int: moves = " << crossings_.size() << ";\n"
         << "array[1..ops] of string: op_name = " << list(problem_.ops(), [&](OpId op) { return quoted_name(op); })
         << ";\n% -1: cannot run there\narray[1..ops, 1..devices] of int: time = "
         << table(ops_, devices_,
                  [&](std::size_t op, std::size_t device) {
                    const OpId i{op};
                    const DeviceId d{device};
                    return fmt::format("{}", problem_.can_run(i, d) ? problem_.duration(i, d).count : -1);
                  })
         << ";\narray[1..ops] of int: resident = "
         << list(problem_.ops(), [&](OpId op) { return fmt::format("{}", problem_.resident_bytes(op).count); })
         << ";\narray[1..devices] of int: capacity = "
         << list(problem_.devices(),
                 [&](DeviceId device) {
                   const auto memory = cluster_.device(device).memory;
                   return fmt::format("{}", memory ? memory->count : std::int64_t{1} << 60);
                 })
         << ";  % 2^60: unlimited\narray[1..devices] of int: gap = " << list(problem_.devices(), [&](DeviceId device) {
              return fmt::format("{}", cluster_.device(device).gap.count);
            });
  }

  void write_decisions() {
    out_ << ";\n\narray[1..ops] of var 1..devices: device;\narray[1..ops] of var 0..limit: start;\n"
         << "array[1..ops] of var 0..limit: duration;\nvar 0..limit: makespan;\n"
         << "constraint forall(i in 1..ops)(time[i, device[i]] >= 0 /\\ duration[i] = time[i, device[i]]);\n"
         << "constraint forall(i in 1..ops)(makespan >= start[i] + duration[i]);\n"
         << "constraint forall(d in 1..devices)(sum(i in 1..ops)(resident[i] * bool2int(device[i] = d)) <= "
            "capacity[d]);\n"
         << "constraint forall(d in 1..devices)(cumulative(start, [duration[i] + gap[d] * bool2int(duration[i] > 0) | "
            "i in 1..ops], [bool2int(device[i] = d /\\ duration[i] > 0) | i in 1..ops], 1));\n";
    for (const GroupId group : problem_.groups()) {
      const auto members = problem_.group_ops(group);
      for (std::size_t i = 1; i < members.size(); ++i)
        out_ << "constraint device[" << op_number(members[i]) << "] = device[" << op_number(members[0]) << "];\n";
    }
  }

  void write_precedence() {
    for (const OpId op : problem_.ops()) {
      const auto after = [&](OpId earlier) {
        out_ << fmt::format("constraint start[{}] >= start[{}] + duration[{}];\n", op_number(op), op_number(earlier),
                            op_number(earlier));
      };
      for (const TensorId tensor : graph_.inputs(op)) after(graph_.producer(tensor));
      for (const OpId earlier : graph_.after(op)) after(earlier);
    }
  }

  void write_moves() {
    out_
        << "\n% Each tensor once to each device that reads it and does not make it.\n"
        << "array[1..moves] of int: producer = "
        << list(crossings_, [&](const Crossing& c) { return op_number(graph_.producer(c.tensor)); })
        << ";\narray[1..moves] of int: target = "
        << list(crossings_, [&](const Crossing& c) { return fmt::format("{}", c.to.index() + 1); })
        << ";\narray[1..moves] of set of int: readers = "
        << list(crossings_,
                [&](const Crossing& c) {
                  const std::string all = list(graph_.consumers(c.tensor), op_number);
                  return "{" + all.substr(1, all.size() - 2) + "}";
                })
        << ";\narray[1..moves, 1..devices] of int: move_time = "
        << table(crossings_.size(), devices_,
                 [&](std::size_t k, std::size_t from) {
                   const Crossing& c = crossings_[k];
                   const bool local = DeviceId{from} == c.to;
                   return fmt::format("{}", local ? 0 : problem_.transfer_time(c.tensor, DeviceId{from}, c.to).count);
                 })
        << ";\narray[1..moves] of var 0..limit: sent;\narray[1..moves] of var 0..limit: move;\n"
        << "array[1..moves] of var bool: moves_there;\n"
        << "constraint forall(k in 1..moves)(moves_there[k] <-> (device[producer[k]] != target[k] /\\ exists(r in "
           "readers[k])(device[r] = target[k])));\n"
        << "constraint forall(k in 1..moves)(move[k] = bool2int(moves_there[k]) * move_time[k, device[producer[k]]]);\n"
        << "constraint forall(k in 1..moves)(sent[k] >= start[producer[k]] + duration[producer[k]]);\n"
        << "constraint forall(k in 1..moves, r in readers[k])(moves_there[k] /\\ device[r] = target[k] -> start[r] >= "
           "sent[k] + move[k]);\n";
  }

  void write_channel(ChannelId channel) {
    const auto holds = [&](std::size_t k, std::size_t from) {
      if (DeviceId{from} == crossings_[k].to) return false;
      const auto route = cluster_.route(DeviceId{from}, crossings_[k].to);
      return std::ranges::find(route.channels, channel) != route.channels.end();
    };
    const std::string name = fmt::format("uses_{}", channel.index() + 1);
    out_ << "array[1..moves, 1..devices] of int: " << name << " = "
         << table(crossings_.size(), devices_,
                  [&](std::size_t k, std::size_t from) { return std::string{holds(k, from) ? "1" : "0"}; })
         << fmt::format(
                ";\nconstraint cumulative(sent, [move[k] + {} * bool2int(move[k] > 0) | k in 1..moves], "
                "[bool2int(move[k] > 0) * {}[k, device[producer[k]]] | k in 1..moves], 1);\n",
                cluster_.channel(channel).gap.count, name);
  }

  const Problem& problem_;
  const Graph& graph_;
  const Cluster& cluster_;
  std::size_t ops_, devices_;
  std::ostream& out_;
  std::vector<Crossing> crossings_;
};

}  // namespace

void write_minizinc(const Problem& problem, Nanoseconds limit, std::ostream& out) {
  MiniZinc{problem, out}.write(limit);
}

}  // namespace trainyard
