#include "trainyard/io/formats/calibration_file.hpp"

#include <fmt/format.h>

#include <ostream>
#include <set>
#include <tuple>

#include "trainyard/io/formats/record_fields.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/json_write.hpp"

namespace trainyard {
namespace detail {

constexpr std::string_view kCalibrationFormat = "trainyard-calibration/1";
constexpr double kLongest = 0x1p42;  // nanoseconds

/// Reads [low, high] with low <= high; zeros if the array has anything else, with a finding.
static Interval read_interval(const JsonValue& value, FindingList& findings) {
  std::vector<double> ends;
  if (!expect(value, JsonKind::array, findings)) return {};
  for (const JsonValue end : value.children()) {
    double number = 0;
    if (!read(end, number, findings)) return {};
    ends.push_back(number);
  }
  if (ends.size() == 2 && ends[0] <= ends[1]) return {ends[0], ends[1]};
  findings.add(value.begin_offset(), "type", fmt::format("{} must be [low, high]", label(value)));
  return {};
}

static void range(RecordReader& fields, const char* key, double& low, double& high) {
  if (const auto value = fields.object().required(key)) {
    const Interval ends = read_interval(*value, fields.findings());
    low = ends.low, high = ends.high;
  }
}
static void range(RecordWriter& fields, const char* key, double low, double high) {
  std::string& out = fields.key(key) += '[';
  append_json(out, low);
  out += ", ";
  append_json(out, high);
  out += ']';
}

/// Reads an interval of whole nanoseconds. Leaves `low` and `high` unchanged if the key is absent.
static void time_range(RecordReader& fields, const char* key, Nanoseconds& low, Nanoseconds& high) {
  const auto interval = fields.object().get(key);
  if (!interval) return;
  std::vector<Nanoseconds> ends;
  if (expect(*interval, JsonKind::array, fields.findings()))
    for (const JsonValue end : interval->children()) {
      Nanoseconds time;
      if (read_count(end, time.count, "nanoseconds", "negative-time", fields.findings())) ends.push_back(time);
    }
  if (ends.size() == 2 && ends[0] <= ends[1])
    low = ends[0], high = ends[1];
  else
    fields.findings().add(interval->begin_offset(), "type", fmt::format("\"{}\" must be [low, high]", key));
}
static void time_range(RecordWriter& fields, const char* key, Nanoseconds low, Nanoseconds high) {
  fields.key(key) += fmt::format("[{}, {}]", low.count, high.count);
}

static void overhead(RecordReader& fields, const char* key, std::optional<Nanoseconds>& to) {
  const auto value = fields.object().get(key);
  if (!value) return;
  to = fields.object().time(key);
  if (static_cast<double>(to->count) > kLongest)
    fields.findings().add(value->begin_offset(), "too-large", fmt::format("\"{}\" is over 2^42 ns (73 minutes)", key));
}
static void overhead(RecordWriter& fields, const char* key, const std::optional<Nanoseconds>& value) {
  if (value) fields.time(key, *value);
}

/// A required fraction of the device's peak, above 0 and at most 1.
static void share(RecordReader& fields, const char* key, double& to) {
  fields.number(key, to, true);
  const auto at = fields.object().get(key, JsonKind::number);
  if (at && to > 0 && to <= 1) return;
  if (at)
    fields.findings().add(at->begin_offset(), "efficiency",
                          fmt::format("\"{}\" must be above 0 and at most 1, got {}", key, at->text()),
                          "it is a share of the device's peak");
  to = 1;
}
static void share(RecordWriter& fields, const char* key, double value) { fields.number(key, value); }

template <class Fields>
void describe(CalibratedDevice& device, Fields& fields) {
  fields.name("kind", device.kind);
  fields.text("class", device.device_class);
  fields.text("name", device.name);
  fields.rate("peak_flops_per_s", device.peak);
  fields.rate("memory_bytes_per_s", device.memory_bandwidth);
  overhead(fields, "launch_overhead_ns", device.launch_overhead);
  overhead(fields, "gap_ns", device.gap);
  overhead(fields, "handoff_ns", device.handoff);
  fields.details(device.details);
  fields.end();
}

template <class Fields>
void describe(CalibratedOp& op, Fields& fields) {
  fields.name("device_kind", op.device_kind);
  fields.text("graph", op.graph);
  fields.text("op", op.op);
  fields.text("signature", op.signature);
  fields.text("type", op.type);
  fields.mode(op.mode);
  fields.time("mean_ns", op.mean);
  if constexpr (Fields::reads) op.median = op.p10 = op.p90 = op.mean_low = op.mean_high = op.mean;
  fields.given_time("median_ns", op.median);
  fields.given_time("p10_ns", op.p10);
  fields.given_time("p90_ns", op.p90);
  time_range(fields, "mean_ci95_ns", op.mean_low, op.mean_high);
  fields.whole("kept", op.kept);
  fields.whole("dropped", op.dropped, kOmitZero);
  fields.counts("drop_reasons", op.drop_reasons);
  fields.rate("flops", op.flops);
  fields.whole("bytes", op.bytes.count, kOmitZero);
  fields.text("source", op.source);
  fields.end();
  if constexpr (Fields::reads)
    if (fields.object().is_object() && op.op.empty() && op.signature.empty())
      fields.findings().add(fields.value().begin_offset(), "missing-key",
                            "an op time has neither \"op\" nor \"signature\"",
                            "give one of them: times are looked up by it");
}

template <class Fields>
void describe(FitQuality& quality, Fields& fields) {
  fields.whole("points", quality.points);
  fields.whole("held_out", quality.held_out, kOmitZero);
  fields.whole("dropped", quality.dropped, kOmitZero);
  fields.number("r2", quality.r2);
  fields.amount("median_relative", quality.median_relative);
  fields.amount("max_relative", quality.max_relative);
  fields.amount("held_out_max_relative", quality.held_out_max_relative);
  fields.end();
}

template <class Fields>
void describe(CalibratedFit& fit, Fields& fields) {
  fields.name("device_kind", fit.device_kind);
  fields.name("type", fit.type);
  fields.amount("fixed_ns", fit.fit.fixed_ns, true);
  fields.amount("ns_per_flop", fit.fit.ns_per_flop, true);
  fields.amount("ns_per_byte", fit.fit.ns_per_byte, true);
  range(fields, "flops_range", fit.fit.least_flops, fit.fit.most_flops);
  range(fields, "bytes_range", fit.fit.least_bytes, fit.fit.most_bytes);
  fields.part("fit", "\"fit\"", fit.quality);
  fields.end();
}

template <class Fields>
void describe(CalibratedEfficiency& entry, Fields& fields) {
  fields.name("device_kind", entry.device_kind);
  fields.name("type", entry.type);
  share(fields, "compute", entry.efficiency.compute);
  share(fields, "memory", entry.efficiency.memory);
  fields.whole("points", entry.points);
  fields.amount("median_relative", entry.median_relative);
  fields.end();
}

/// A segment of a link's transfer times, with the confidence intervals of its coefficients if the file has them.
struct SegmentRow {
  TransferSegment line;
  std::optional<Interval> latency, slope;
};
template <class Fields>
void describe(SegmentRow& segment, Fields& fields) {
  fields.bytes("from_bytes", segment.line.from);
  fields.bytes("to_bytes", segment.line.to);
  fields.amount("latency_ns", segment.line.latency_ns, true);
  fields.amount("ns_per_byte", segment.line.ns_per_byte, true);
  if constexpr (Fields::reads)
    if (fields.object().get("latency_ci95_ns") && fields.object().get("ci95_ns_per_byte"))
      segment.latency.emplace(), segment.slope.emplace();
  if (segment.latency) {
    range(fields, "latency_ci95_ns", segment.latency->low, segment.latency->high);
    range(fields, "ci95_ns_per_byte", segment.slope->low, segment.slope->high);
  }
  fields.end();
}

static void read_segments(const JsonValue& rows, CalibratedLink& link, FindingList& findings) {
  if (rows.size() == 0) findings.add(rows.begin_offset(), "segments", "a link needs at least one segment");
  for (const JsonValue row : rows.children()) {
    SegmentRow segment;
    RecordReader fields{row, "a segment", findings};
    describe(segment, fields);
    if (segment.latency) {
      link.latency_ns.push_back(*segment.latency);
      link.ns_per_byte.push_back(*segment.slope);
    }
    if (!fields.object().is_object()) continue;
    const TransferSegment& line = segment.line;
    const auto refuse = [&](const char* message) { findings.add(row.begin_offset(), "segments", message); };
    // Slower than 1 byte/s or faster than 10^18 bytes/s: not a real link, and later computations fail with such rates.
    if (line.ns_per_byte < 1e-9 || line.ns_per_byte > 1e9) refuse("\"ns_per_byte\" must lie between 1e-9 and 1e9");
    if (line.latency_ns > kLongest) refuse("\"latency_ns\" is over 2^42 ns (73 minutes)");
    if (line.to < line.from) refuse("a segment ends before it begins");
    if (!link.segments.empty() && line.from <= link.segments.back().to)
      refuse("segments must not overlap and must be in ascending order of size");
    link.segments.push_back(line);
  }
  if (!link.latency_ns.empty() && link.latency_ns.size() != rows.size())
    findings.add(rows.begin_offset(), "segments",
                 "only some segments have intervals: give them for all segments or for none");
}

static void segments(RecordReader& fields, CalibratedLink& link) {
  if (const auto rows = fields.object().required("segments", JsonKind::array))
    read_segments(*rows, link, fields.findings());
}
static void segments(RecordWriter& fields, const CalibratedLink& link) {
  std::vector<SegmentRow> rows;
  for (std::size_t i = 0; i < link.segments.size(); ++i) {
    rows.push_back({link.segments[i], {}, {}});
    if (!link.latency_ns.empty()) rows[i].latency = link.latency_ns[i], rows[i].slope = link.ns_per_byte[i];
  }
  fields.rows("segments", "a segment", rows, true);
}

template <class Fields>
void describe(CalibratedLink& link, Fields& fields) {
  fields.text("link", link.link);
  fields.name("from", link.from);
  fields.name("to", link.to);
  fields.text("from_kind", link.from_kind);
  fields.text("to_kind", link.to_kind);
  fields.text("path", link.path);
  fields.text("engine", link.engine);
  fields.flag("pinned", link.pinned);
  fields.texts("beside", link.beside);
  segments(fields, link);
  fields.part("fit", "\"fit\"", link.quality);
  fields.end();
}

template <class Fields>
void describe(CoRunFactor& entry, Fields& fields) {
  fields.name("device_kind", entry.device_kind);
  fields.name("type", entry.type);
  fields.whole("devices", entry.devices, {.least = 2, .otherwise = 2});
  fields.number("factor", entry.factor, true);
  fields.whole("points", entry.points);
  fields.end();
  if constexpr (Fields::reads)
    if (const auto at = fields.object().get("factor", JsonKind::number);
        at && !(entry.factor >= 1e-3 && entry.factor <= 1e3)) {
      fields.findings().add(at->begin_offset(), "not-positive",
                            fmt::format("\"factor\" must be between 0.001 and 1000, got {}", at->text()),
                            "it is the time of an op beside others divided by its time alone");
      entry.factor = 1;
    }
}

template <class Fields>
void describe(CopySensitivity& entry, Fields& fields) {
  fields.name("device_kind", entry.device_kind);
  fields.name("type", entry.type);
  fields.number("sensitivity", entry.sensitivity, true);
  fields.whole("points", entry.points);
  fields.end();
  if constexpr (Fields::reads)
    if (const auto at = fields.object().get("sensitivity", JsonKind::number);
        at && !(entry.sensitivity >= 0 && entry.sensitivity <= 1e3)) {
      fields.findings().add(at->begin_offset(), "not-positive",
                            fmt::format("\"sensitivity\" must be between 0 and 1000, got {}", at->text()),
                            "it is the share of the op's time that copies at the full memory bandwidth add");
      entry.sensitivity = 0;
    }
}

template <class Fields>
void describe(CollectivePoint& point, Fields& fields) {
  fields.bytes("bytes", point.bytes);
  fields.time("time_ns", point.time);
  fields.end();
}

/// Checks the ranks and points of a collective's table; their types have been checked.
static void check_table(const CollectiveTable& table, const JsonValue& value, FindingList& findings) {
  const auto refuse = [&](std::string message) {
    findings.add(value.begin_offset(), "collective", std::move(message));
  };
  if (table.ranks % table.nodes != 0)
    refuse(fmt::format("{} ranks cannot be divided evenly among {} nodes", table.ranks, table.nodes));
  if (table.points.empty()) return refuse("a collective needs at least one point");
  for (std::size_t i = 0; i < table.points.size(); ++i) {
    if (table.points[i].bytes.count == 0 || table.points[i].time.count == 0)
      return refuse("a point needs bytes and a time above 0");
    if (static_cast<double>(table.points[i].time.count) > kLongest)
      return refuse("\"time_ns\" is over 2^42 ns (73 minutes)");
    if (i > 0 && table.points[i].bytes <= table.points[i - 1].bytes)
      return refuse("points must be in ascending order of size");
  }
}

template <class Fields>
void describe(CollectiveTable& table, Fields& fields) {
  std::string kind = name_of(table.kind);
  fields.name("collective", kind);
  auto ranks = static_cast<std::int64_t>(table.ranks), nodes = static_cast<std::int64_t>(table.nodes);
  fields.whole("ranks", ranks, {.least = 2, .otherwise = 2});
  fields.whole("nodes", nodes, {.least = 1, .otherwise = 1});
  fields.text("source", table.source);
  fields.rows("points", "a point", table.points, true);
  fields.end();
  if constexpr (Fields::reads) {
    table.ranks = static_cast<std::size_t>(ranks), table.nodes = static_cast<std::size_t>(nodes);
    if (!fields.object().is_object()) return;
    if (const auto found = find_collective_kind(kind))
      table.kind = *found;
    else if (const auto at = fields.object().get("collective", JsonKind::string))
      fields.findings().add(at->begin_offset(), "collective", fmt::format("unknown collective '{}'", kind),
                            "give all-reduce, all-gather, reduce-scatter, all-to-all, broadcast or shift");
    check_table(table, fields.value(), fields.findings());
  }
}

template <class Fields>
void describe(Calibration& calibration, Fields& fields) {
  fields.format(kCalibrationFormat);
  fields.text("name", calibration.name);
  fields.text("created", calibration.created);
  fields.part("tool", "\"tool\"", calibration.tool);
  fields.part("host", "\"host\"", calibration.host);
  fields.rows("devices", "a device kind", calibration.devices);
  fields.rows("ops", "an op time", calibration.ops);
  fields.rows("fits", "a fit", calibration.fits);
  fields.rows("efficiencies", "an efficiency", calibration.efficiencies);
  fields.rows("links", "a link", calibration.links);
  fields.rows("co_run", "a co-run factor", calibration.co_run);
  fields.rows("interference", "a sensitivity to copies", calibration.interference);
  fields.rows("collectives", "a collective", calibration.collectives);
  fields.end();
}

/// Adds a finding for each row whose `key_of` equals that of an earlier row.
template <class Record, class KeyOf>
static void find_twins(const JsonValue& root, const char* key, const std::vector<Record>& records, const KeyOf& key_of,
                       FindingList& findings) {
  const auto rows = root.find(key);
  if (!rows || rows->kind() != JsonKind::array) return;
  std::set<decltype(key_of(records.front()))> seen;
  auto record = records.begin();
  for (const JsonValue row : rows->children())
    if (!seen.insert(key_of(*record++)).second)
      findings.add(row.begin_offset(), "duplicate-name", fmt::format("this row of \"{}\" repeats an earlier one", key),
                   "keep one of them");
}

static void find_twins(const JsonValue& root, const Calibration& calibration, FindingList& findings) {
  const auto by_type = [](const auto& row) { return std::tie(row.device_kind, row.type); };
  const auto find = [&](const char* key, const auto& records, const auto& key_of) {
    find_twins(root, key, records, key_of, findings);
  };
  find("devices", calibration.devices, [](const CalibratedDevice& row) { return std::tie(row.kind); });
  find("ops", calibration.ops,
       [](const CalibratedOp& row) { return std::tie(row.device_kind, row.graph, row.op, row.signature, row.mode); });
  find("fits", calibration.fits, by_type);
  find("efficiencies", calibration.efficiencies, by_type);
  find("co_run", calibration.co_run,
       [](const CoRunFactor& row) { return std::tie(row.device_kind, row.type, row.devices); });
  find("interference", calibration.interference, by_type);
  find("collectives", calibration.collectives,
       [](const CollectiveTable& row) { return std::tie(row.kind, row.ranks, row.nodes); });
}

}  // namespace detail

Calibration read_calibration(const std::filesystem::path& path) {
  return parse_calibration(read_input(path), input_name(path));
}

Calibration parse_calibration(std::string_view text, const std::string& name) {
  detail::FindingList findings{name, text};
  detail::JsonTree tree;
  const auto root = detail::parse_json(text, tree, findings);
  Calibration calibration;
  if (root && detail::check_format(*root, detail::kCalibrationFormat, findings)) {
    detail::RecordReader fields{*root, "a calibration", findings};
    describe(calibration, fields);
    if (findings.empty()) detail::find_twins(*root, calibration, findings);
  }
  findings.raise_if_any();
  return calibration;
}

void write_calibration(const Calibration& calibration, std::ostream& out) {
  std::string text;
  detail::RecordWriter fields{text};
  describe(const_cast<Calibration&>(calibration), fields);  // a writer does not modify the record
  text += '\n';
  parse_calibration(text, "the calibration");
  out << text;
}

}  // namespace trainyard
