#include "trainyard/io/formats/runs_file.hpp"

#include <fmt/format.h>

#include <ostream>
#include <set>

#include "trainyard/io/formats/problem_names.hpp"
#include "trainyard/io/formats/record_fields.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/json_write.hpp"

namespace trainyard {
namespace detail {

constexpr std::string_view kRunsFormat = "trainyard-runs/1";

template <class Fields>
void describe(RecordedRuns& runs, Fields& fields) {
  fields.text("created", runs.created);
  fields.part("tool", "\"tool\"", runs.tool);
  fields.part("host", "\"host\"", runs.host);
  fields.details(runs.details);
}

/// Reads one file. Holds the findings and names that all rows use.
class RunsReader {
 public:
  RunsReader(const Problem& problem, FindingList& findings) : problem_(problem), findings_(findings) {}

  RecordedRuns read_root(const JsonValue& value) {
    RecordedRuns runs;
    RecordReader fields{value, "a file of runs", findings_};
    fields.format(kRunsFormat);
    fields.object().get("graph", JsonKind::string);
    fields.object().get("cluster", JsonKind::string);
    describe(runs, fields);
    if (const auto names = fields.object().required("ops", JsonKind::array)) check_ops(*names);
    if (const auto rows = fields.object().required("runs", JsonKind::array))
      for (const JsonValue row : rows->children()) runs.runs.push_back(read_run(row));
    fields.end();
    return runs;
  }

 private:
  /// Checks that the ops are the graph's, in the graph's order, since steps list their times in it.
  void check_ops(const JsonValue& names) {
    std::vector<std::string_view> given;
    if (!read(names, given, findings_)) return;
    const auto other = [&](std::string what) {
      findings_.add(names.begin_offset(), "other-graph", std::move(what),
                    "give the model that the recipe was made from");
    };
    const Graph& graph = problem_.graph();
    if (given.size() != graph.op_count())
      return other(
          fmt::format("these runs have {} ops, the graph '{}' has {}", given.size(), graph.name(), graph.op_count()));
    for (const OpId op : graph.ops())
      if (given[op.index()] != graph.name(op))
        return other(fmt::format("op {} of these runs is '{}', but in the graph '{}' it is '{}'", op.index(),
                                 given[op.index()], graph.name(), graph.name(op)));
  }

  RecordedRun read_run(const JsonValue& row) {
    RecordedRun run;
    RecordReader fields{row, "a run", findings_};
    fields.name("schedule", run.name);
    fields.name("key", run.key);
    if (!run.key.empty() && !keys_.insert(run.key).second)
      findings_.add(row.begin_offset(), "duplicate-name", fmt::format("the schedule '{}' already has a run", run.name),
                    "keep one");
    fields.number("loss", run.loss);
    fields.flag("outputs_agree", run.outputs_agree);
    fields.given_time("clock_skew_ns", run.clock_skew);
    fields.whole("allocated_bytes", run.allocated.count, kOmitZero);
    if (const auto sent = fields.object().get("transfers", JsonKind::array))
      for (const JsonValue each : sent->children()) run.transfers.push_back(read_sent(each));
    if (const auto plain = fields.object().get("plain_ns", JsonKind::array))
      for (const JsonValue each : plain->children()) run.plain.push_back(time(each));
    if (const auto steps = fields.object().required("steps", JsonKind::array)) {
      for (const JsonValue each : steps->children()) run.steps.push_back(read_step(each, run.transfers.size()));
      if (run.steps.empty())
        findings_.add(steps->begin_offset(), "size", fmt::format("the run of '{}' has no steps", run.name),
                      "measure it again, or remove the run");
    }
    fields.end();
    return run;
  }

  RecordedRun::Sent read_sent(const JsonValue& row) {
    RecordedRun::Sent sent{};
    ObjectReader reader{row, "a transfer", findings_};
    if (const auto name = reader.required("tensor"))
      if (const auto id = names_.tensor(*name)) sent.tensor = *id;
    if (const auto name = reader.required("from"))
      if (const auto id = names_.device(*name)) sent.from = *id;
    if (const auto name = reader.required("to"))
      if (const auto id = names_.device(*name)) sent.to = *id;
    reader.check_unknown_keys();
    return sent;
  }

  RecordedStep read_step(const JsonValue& row, std::size_t transfers) {
    RecordedStep step;
    ObjectReader reader{row, "a step", findings_};
    step.makespan = reader.time("makespan_ns");
    step.ops.assign(problem_.op_count(), Span{});
    const std::vector<Span> ops = read_spans(reader.required("ops_ns", JsonKind::array), problem_.op_count(), "op");
    for (std::size_t i = 0; i < ops.size(); ++i) step.ops[OpId{i}] = ops[i];
    step.transfers = transfers == 0 && !reader.get("transfers_ns")
                         ? std::vector<Span>{}
                         : read_spans(reader.required("transfers_ns", JsonKind::array), transfers, "transfer");
    step.dropped = reader.text("dropped");
    reader.check_unknown_keys();
    return step;
  }

  /// Reads alternating start and end times. Returns `count` spans, or none after an error.
  std::vector<Span> read_spans(const std::optional<JsonValue>& times, std::size_t count, const char* what) {
    if (!times) return {};
    std::vector<Nanoseconds> read;
    for (const JsonValue each : times->children()) {
      read.push_back(time(each));
      if (read.size() % 2 == 0 && read.back() < read[read.size() - 2])
        findings_.add(each.begin_offset(), "negative-time",
                      fmt::format("{} {} ends at {} ns, before it starts at {} ns", what, read.size() / 2 - 1,
                                  read.back().count, read[read.size() - 2].count));
    }
    if (read.size() != 2 * count) {
      findings_.add(
          times->begin_offset(), "size",
          fmt::format("there are {} times, expected {}: a start and an end for each {}", read.size(), 2 * count, what));
      return {};
    }
    std::vector<Span> spans(count);
    for (std::size_t i = 0; i < count; ++i) spans[i] = {read[2 * i], read[2 * i + 1]};
    return spans;
  }

  Nanoseconds time(const JsonValue& value) {
    std::int64_t count = 0;
    read_count(value, count, "nanoseconds", "negative-time", findings_);
    return Nanoseconds{count};
  }

  const Problem& problem_;
  FindingList& findings_;
  ProblemNames names_{problem_, findings_};
  std::set<std::string> keys_;
};

class RunsWriter {
 public:
  RunsWriter(const Problem& problem, std::ostream& stream) : problem_(problem), stream_(stream) {}

  void write(const RecordedRuns& runs) {
    RecordWriter fields{out_};
    fields.format(kRunsFormat);
    fields.text("graph", problem_.graph().name());
    fields.text("cluster", problem_.cluster().name());
    describe(const_cast<RecordedRuns&>(runs), fields);  // a writer does not modify the record
    out_ += ",\n \"ops\": [";
    for (const OpId op : problem_.ops()) out_ += (op.index() ? ", " : "") + json_string(problem_.graph().name(op));
    out_ += "],\n \"runs\": [";
    for (const RecordedRun& run : runs.runs) write(run);
    stream_ << out_ << "]}\n";
  }

 private:
  void write(const RecordedRun& run) {
    out_ += out_.back() == '[' ? "\n  " : ",\n  ";
    RecordWriter fields{out_, 2};
    fields.name("schedule", run.name);
    fields.name("key", run.key);
    fields.number("loss", run.loss);
    fields.flag("outputs_agree", run.outputs_agree);
    if (run.clock_skew.count > 0) fields.time("clock_skew_ns", run.clock_skew);
    fields.whole("allocated_bytes", run.allocated.count, kOmitZero);
    fields.key("transfers") += '[';
    for (const RecordedRun::Sent& sent : run.transfers) {
      if (out_.back() != '[') out_ += ", ";
      RecordWriter row{out_, 3};
      row.name("tensor", std::string{problem_.graph().name(sent.tensor)});
      row.name("from", problem_.cluster().device(sent.from).name);
      row.name("to", problem_.cluster().device(sent.to).name);
      row.end();
    }
    out_ += ']';
    fields.key("plain_ns") += '[';
    for (const Nanoseconds time : run.plain) add(time);
    out_ += ']';
    fields.key("steps") += '[';
    for (const RecordedStep& step : run.steps) {
      out_ += out_.back() == '[' ? "\n   " : ",\n   ";
      RecordWriter row{out_, 3};
      row.time("makespan_ns", step.makespan);
      row.key("ops_ns") += '[';
      for (const Span& span : step.ops) add(span.start), add(span.end);
      out_ += ']';
      row.key("transfers_ns") += '[';
      for (const Span& span : step.transfers) add(span.start), add(span.end);
      out_ += ']';
      row.text("dropped", step.dropped);
      row.end();
      pass_on(out_, stream_);
    }
    out_ += ']';
    fields.end();
  }

  void add(Nanoseconds time) {
    if (out_.back() != '[') out_ += ", ";
    append_json(out_, time.count);
  }

  const Problem& problem_;
  std::ostream& stream_;
  std::string out_;
};

}  // namespace detail

RecordedRuns read_runs(const std::filesystem::path& path, const Problem& problem) {
  return parse_runs(read_input(path), input_name(path), problem);
}

RecordedRuns parse_runs(std::string_view text, const std::string& name, const Problem& problem) {
  detail::FindingList findings{name, text};
  detail::JsonTree tree;
  const auto root = detail::parse_json(text, tree, findings);
  RecordedRuns runs;
  if (root && detail::check_format(*root, detail::kRunsFormat, findings))
    runs = detail::RunsReader{problem, findings}.read_root(*root);
  findings.raise_if_any();
  return runs;
}

void write_runs(const RecordedRuns& runs, const Problem& problem, std::ostream& out) {
  detail::RunsWriter{problem, out}.write(runs);
}

}  // namespace trainyard
