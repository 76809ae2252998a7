#include "trainyard/io/calibration_file.hpp"

#include <fmt/format.h>

#include <ostream>

#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json_write.hpp"
#include "trainyard/io/measurement_json.hpp"

namespace trainyard {
namespace {

using namespace detail;

constexpr std::string_view kFormat = "trainyard-calibration/1";

class CalibrationReader {
 public:
  explicit CalibrationReader(FindingList& findings) : findings_(findings) {}

  Calibration read_root(const JsonValue& value) {
    Calibration calibration;
    ObjectReader reader{value, "a calibration", findings_};
    reader.get("format");
    calibration.name = reader.text("name");
    calibration.created = reader.text("created");
    calibration.tool = read_tool(reader, findings_);
    calibration.host = read_host(reader, findings_);
    const auto rows_of = [&](const char* key, auto& rows, const auto& read_row) {
      if (const auto array = reader.get(key, JsonKind::array))
        for (const JsonValue row : array->children()) rows.push_back(read_row(row));
    };
    rows_of("devices", calibration.devices, [&](const JsonValue& row) { return read_device(row); });
    rows_of("ops", calibration.ops, [&](const JsonValue& row) { return read_op(row); });
    rows_of("fits", calibration.fits, [&](const JsonValue& row) { return read_fit(row); });
    rows_of("efficiencies", calibration.efficiencies, [&](const JsonValue& row) { return read_efficiency(row); });
    rows_of("links", calibration.links, [&](const JsonValue& row) { return read_link(row); });
    rows_of("co_run", calibration.co_run, [&](const JsonValue& row) { return read_co_run(row); });
    reader.check_unknown_keys();
    return calibration;
  }

 private:
  CalibratedDevice read_device(const JsonValue& row) {
    ObjectReader reader{row, "a device kind", findings_};
    CalibratedDevice device{
        .kind = read_required_text(reader, "kind"), .device_class = reader.text("class"), .name = reader.text("name")};
    device.peak = FlopsPerSecond{read_amount(reader, "peak_flops_per_s", false, findings_)};
    device.memory_bandwidth = BytesPerSecond{read_amount(reader, "memory_bytes_per_s", false, findings_)};
    const auto overhead = [&](const char* key) -> std::optional<Nanoseconds> {
      const auto value = reader.get(key);
      if (!value) return std::nullopt;
      const Nanoseconds time = reader.time(key);
      if (time.count > std::int64_t{1} << 42)
        findings_.add(value->begin_offset(), "too-large", fmt::format("\"{}\" is over 2^42 ns (73 minutes)", key));
      return time;
    };
    device.launch_overhead = overhead("launch_overhead_ns");
    device.gap = overhead("gap_ns");
    device.handoff = overhead("handoff_ns");
    device.details = read_details(reader, findings_);
    reader.check_unknown_keys();
    return device;
  }

  CalibratedOp read_op(const JsonValue& row) {
    ObjectReader reader{row, "an op time", findings_};
    CalibratedOp op{.device_kind = read_required_text(reader, "device_kind"),
                    .graph = reader.text("graph"),
                    .op = reader.text("op"),
                    .signature = reader.text("signature"),
                    .type = reader.text("type"),
                    .mode = read_mode(reader, findings_)};
    op.mean = reader.time("mean_ns");
    const auto other = [&](const char* key) { return reader.get(key) ? reader.time(key) : op.mean; };
    op.median = other("median_ns");
    op.p10 = other("p10_ns");
    op.p90 = other("p90_ns");
    op.mean_low = op.mean_high = op.mean;
    if (const auto interval = reader.get("mean_ci95_ns")) {
      std::vector<Nanoseconds> ends;
      if (expect(*interval, JsonKind::array, findings_))
        for (const JsonValue end : interval->children()) {
          Nanoseconds time;
          if (read_count(end, time.count, "nanoseconds", "negative-time", findings_)) ends.push_back(time);
        }
      if (ends.size() == 2)
        op.mean_low = ends[0], op.mean_high = ends[1];
      else
        findings_.add(interval->begin_offset(), "type", "\"mean_ci95_ns\" must be [low, high]");
    }
    op.kept = read_whole(reader, "kept", 0, 0, findings_);
    op.dropped = read_whole(reader, "dropped", 0, 0, findings_);
    if (const auto reasons = reader.get("drop_reasons", JsonKind::object))
      for (const JsonValue member : reasons->children())
        read_count(member, op.drop_reasons[std::string{member.key()}], "samples", "negative-number", findings_);
    op.flops = Flops{read_amount(reader, "flops", false, findings_)};
    op.bytes = Bytes{read_whole(reader, "bytes", 0, 0, findings_)};
    op.source = reader.text("source");
    reader.check_unknown_keys();
    if (reader.is_object() && op.op.empty() && op.signature.empty())
      findings_.add(row.begin_offset(), "missing-key", "an op time has neither \"op\" nor \"signature\"",
                    "without one of them nothing can be looked up by it");
    return op;
  }

  FitQuality read_quality(ObjectReader& parent) {
    FitQuality quality;
    const auto value = parent.get("fit");
    if (!value) return quality;
    ObjectReader reader{*value, "\"fit\"", findings_};
    quality.points = read_whole(reader, "points", 0, 0, findings_);
    quality.held_out = read_whole(reader, "held_out", 0, 0, findings_);
    quality.dropped = read_whole(reader, "dropped", 0, 0, findings_);
    quality.r2 = read_number(reader, "r2", false, findings_);
    quality.median_relative = read_amount(reader, "median_relative", false, findings_);
    quality.max_relative = read_amount(reader, "max_relative", false, findings_);
    quality.held_out_max_relative = read_amount(reader, "held_out_max_relative", false, findings_);
    reader.check_unknown_keys();
    return quality;
  }

  /// [low, high].
  Interval read_interval(const JsonValue& value) {
    std::vector<double> ends;
    if (expect(value, JsonKind::array, findings_)) {
      for (const JsonValue end : value.children()) {
        double number = 0;
        if (!read(end, number, findings_)) return {};
        ends.push_back(number);
      }
      if (ends.size() == 2) return {ends[0], ends[1]};
      findings_.add(value.begin_offset(), "type", fmt::format("{} must be [low, high]", label(value)));
    }
    return {};
  }

  CalibratedFit read_fit(const JsonValue& row) {
    ObjectReader reader{row, "a fit", findings_};
    CalibratedFit fit{read_required_text(reader, "device_kind"), read_required_text(reader, "type"), {}, {}};
    fit.fit.fixed_ns = read_amount(reader, "fixed_ns", true, findings_);
    fit.fit.ns_per_flop = read_amount(reader, "ns_per_flop", true, findings_);
    fit.fit.ns_per_byte = read_amount(reader, "ns_per_byte", true, findings_);
    const auto range = [&](const char* key, double& least, double& most) {
      if (const auto value = reader.required(key)) {
        const Interval ends = read_interval(*value);
        least = ends.low, most = ends.high;
      }
    };
    range("flops_range", fit.fit.least_flops, fit.fit.most_flops);
    range("bytes_range", fit.fit.least_bytes, fit.fit.most_bytes);
    fit.quality = read_quality(reader);
    reader.check_unknown_keys();
    return fit;
  }

  CalibratedEfficiency read_efficiency(const JsonValue& row) {
    ObjectReader reader{row, "an efficiency", findings_};
    CalibratedEfficiency entry{read_required_text(reader, "device_kind"), read_required_text(reader, "type"), {}, 0, 0};
    const auto share = [&](const char* key) {
      const double value = read_number(reader, key, true, findings_);
      const auto at = reader.get(key, JsonKind::number);
      if (!at || (value > 0 && value <= 1)) return at ? value : 1.0;
      findings_.add(at->begin_offset(), "efficiency",
                    fmt::format("\"{}\" must be above 0 and at most 1, got {}", key, at->text()),
                    "it is a share of the device's peak");
      return 1.0;
    };
    entry.efficiency = {share("compute"), share("memory")};
    entry.points = read_whole(reader, "points", 0, 0, findings_);
    entry.median_relative = read_amount(reader, "median_relative", false, findings_);
    reader.check_unknown_keys();
    return entry;
  }

  CalibratedLink read_link(const JsonValue& row) {
    ObjectReader reader{row, "a link", findings_};
    CalibratedLink link{.link = reader.text("link"),
                        .from = read_required_text(reader, "from"),
                        .to = read_required_text(reader, "to"),
                        .from_kind = reader.text("from_kind"),
                        .to_kind = reader.text("to_kind"),
                        .path = reader.text("path"),
                        .engine = reader.text("engine"),
                        .pinned = read_flag(reader, "pinned", true, findings_),
                        .beside = read_texts(reader, "beside", findings_)};
    if (const auto segments = reader.required("segments", JsonKind::array)) read_segments(*segments, link);
    link.quality = read_quality(reader);
    reader.check_unknown_keys();
    return link;
  }

  void read_segments(const JsonValue& rows, CalibratedLink& link) {
    if (rows.size() == 0) findings_.add(rows.begin_offset(), "segments", "a link needs at least one segment");
    std::size_t intervals = 0;
    for (const JsonValue row : rows.children()) {
      ObjectReader reader{row, "a segment", findings_};
      TransferSegment segment{reader.bytes("from_bytes"), reader.bytes("to_bytes"),
                              read_amount(reader, "latency_ns", true, findings_),
                              read_amount(reader, "ns_per_byte", true, findings_)};
      if (reader.get("latency_ci95_ns") && reader.get("ci95_ns_per_byte")) {
        link.latency_ns.push_back(read_interval(*reader.get("latency_ci95_ns")));
        link.ns_per_byte.push_back(read_interval(*reader.get("ci95_ns_per_byte")));
        ++intervals;
      }
      reader.check_unknown_keys();
      if (!reader.is_object()) continue;
      const auto refuse = [&](const char* message) { findings_.add(row.begin_offset(), "segments", message); };
      // Slower than 1 byte/s, or faster than 10^18: no link, and rates that do not compute.
      if (segment.ns_per_byte < 1e-9 || segment.ns_per_byte > 1e9)
        refuse("\"ns_per_byte\" must lie between 1e-9 and 1e9");
      if (segment.latency_ns > 0x1p42) refuse("\"latency_ns\" is over 2^42 ns (73 minutes)");
      if (segment.to < segment.from) refuse("a segment ends before it begins");
      if (!link.segments.empty() && segment.from <= link.segments.back().to)
        refuse("segments must not overlap, and stand by ascending size");
      link.segments.push_back(segment);
    }
    if (intervals != 0 && intervals != rows.size())
      findings_.add(rows.begin_offset(), "segments", "either all segments have intervals, or none");
  }

  CoRunFactor read_co_run(const JsonValue& row) {
    ObjectReader reader{row, "a co-run factor", findings_};
    CoRunFactor entry{read_required_text(reader, "device_kind"), read_required_text(reader, "type"), 2, 1, 0};
    entry.devices = read_whole(reader, "devices", 2, 2, findings_);
    entry.factor = read_number(reader, "factor", true, findings_);
    entry.points = read_whole(reader, "points", 0, 0, findings_);
    reader.check_unknown_keys();
    if (const auto at = reader.get("factor", JsonKind::number); at && !(entry.factor >= 1e-3 && entry.factor <= 1e3)) {
      findings_.add(at->begin_offset(), "not-positive", fmt::format("\"factor\" is no factor: {}", at->text()),
                    "it is the time of an op beside others over its time alone");
      entry.factor = 1;
    }
    return entry;
  }

  FindingList& findings_;
};

void append_required(MemberWriter& row, const char* key, const std::string& text) { append_json(row.key(key), text); }

void append_interval(MemberWriter& row, const char* key, double low, double high) {
  std::string& out = row.key(key) += '[';
  append_json(out, low);
  out += ", ";
  append_json(out, high);
  out += ']';
}

void append_quality(std::string& out, MemberWriter& row, const FitQuality& quality) {
  if (quality == FitQuality{}) return;
  row.key("fit");
  MemberWriter fields{out};
  fields.whole("points", quality.points);
  if (quality.held_out > 0) fields.whole("held_out", quality.held_out);
  if (quality.dropped > 0) fields.whole("dropped", quality.dropped);
  fields.number("r2", quality.r2);
  fields.number("median_relative", quality.median_relative);
  fields.number("max_relative", quality.max_relative);
  fields.number("held_out_max_relative", quality.held_out_max_relative);
  fields.close();
}

void append(std::string& out, const CalibratedDevice& device) {
  MemberWriter row{out};
  append_required(row, "kind", device.kind);
  row.text("class", device.device_class);
  row.text("name", device.name);
  if (device.peak.value > 0) row.number("peak_flops_per_s", device.peak.value);
  if (device.memory_bandwidth.value > 0) row.number("memory_bytes_per_s", device.memory_bandwidth.value);
  if (device.launch_overhead) row.whole("launch_overhead_ns", device.launch_overhead->count);
  if (device.gap) row.whole("gap_ns", device.gap->count);
  if (device.handoff) row.whole("handoff_ns", device.handoff->count);
  row.details(device.details);
  row.close();
}

void append(std::string& out, const CalibratedOp& op) {
  MemberWriter row{out};
  append_required(row, "device_kind", op.device_kind);
  row.text("graph", op.graph);
  row.text("op", op.op);
  row.text("signature", op.signature);
  row.text("type", op.type);
  row.text("mode", name_of(op.mode));
  row.whole("mean_ns", op.mean.count);
  row.whole("median_ns", op.median.count);
  row.whole("p10_ns", op.p10.count);
  row.whole("p90_ns", op.p90.count);
  row.key("mean_ci95_ns") += fmt::format("[{}, {}]", op.mean_low.count, op.mean_high.count);
  row.whole("kept", op.kept);
  if (op.dropped > 0) row.whole("dropped", op.dropped);
  if (!op.drop_reasons.empty()) {
    row.key("drop_reasons");
    MemberWriter reasons{out};
    for (const auto& [reason, count] : op.drop_reasons) reasons.whole(reason.c_str(), count);
    reasons.close();
  }
  if (op.flops.value > 0) row.number("flops", op.flops.value);
  if (op.bytes.count > 0) row.whole("bytes", op.bytes.count);
  row.text("source", op.source);
  row.close();
}

void append(std::string& out, const CalibratedFit& fit) {
  MemberWriter row{out};
  append_required(row, "device_kind", fit.device_kind);
  append_required(row, "type", fit.type);
  row.number("fixed_ns", fit.fit.fixed_ns);
  row.number("ns_per_flop", fit.fit.ns_per_flop);
  row.number("ns_per_byte", fit.fit.ns_per_byte);
  append_interval(row, "flops_range", fit.fit.least_flops, fit.fit.most_flops);
  append_interval(row, "bytes_range", fit.fit.least_bytes, fit.fit.most_bytes);
  append_quality(out, row, fit.quality);
  row.close();
}

void append(std::string& out, const CalibratedEfficiency& entry) {
  MemberWriter row{out};
  append_required(row, "device_kind", entry.device_kind);
  append_required(row, "type", entry.type);
  row.number("compute", entry.efficiency.compute);
  row.number("memory", entry.efficiency.memory);
  row.whole("points", entry.points);
  row.number("median_relative", entry.median_relative);
  row.close();
}

void append(std::string& out, const CalibratedLink& link) {
  MemberWriter row{out};
  row.text("link", link.link);
  append_required(row, "from", link.from);
  append_required(row, "to", link.to);
  row.text("from_kind", link.from_kind);
  row.text("to_kind", link.to_kind);
  row.text("path", link.path);
  row.text("engine", link.engine);
  row.flag("pinned", link.pinned);
  row.texts("beside", link.beside);
  row.key("segments") += '[';
  for (std::size_t i = 0; i < link.segments.size(); ++i) {
    const TransferSegment& segment = link.segments[i];
    out += out.back() == '[' ? "\n   " : ",\n   ";
    MemberWriter fields{out};
    fields.whole("from_bytes", segment.from.count);
    fields.whole("to_bytes", segment.to.count);
    fields.number("latency_ns", segment.latency_ns);
    fields.number("ns_per_byte", segment.ns_per_byte);
    if (!link.latency_ns.empty()) {
      append_interval(fields, "latency_ci95_ns", link.latency_ns[i].low, link.latency_ns[i].high);
      append_interval(fields, "ci95_ns_per_byte", link.ns_per_byte[i].low, link.ns_per_byte[i].high);
    }
    fields.close();
  }
  out += ']';
  append_quality(out, row, link.quality);
  row.close();
}

void append(std::string& out, const CoRunFactor& entry) {
  MemberWriter row{out};
  append_required(row, "device_kind", entry.device_kind);
  append_required(row, "type", entry.type);
  row.whole("devices", entry.devices);
  row.number("factor", entry.factor);
  row.whole("points", entry.points);
  row.close();
}

template <class Row>
void append_rows(std::string& out, const char* key, const std::vector<Row>& rows) {
  if (rows.empty()) return;
  out += fmt::format(",\n \"{}\": [", key);
  for (const Row& row : rows) {
    begin_row(out);
    append(out, row);
  }
  out += ']';
}

}  // namespace

Calibration read_calibration(const std::filesystem::path& path) {
  return parse_calibration(read_input(path), input_name(path));
}

Calibration parse_calibration(std::string_view text, const std::string& name) {
  FindingList findings{name, text};
  JsonTree tree;
  const auto root = parse_json(text, tree, findings);
  Calibration calibration;
  if (root && check_format(*root, kFormat, findings)) calibration = CalibrationReader{findings}.read_root(*root);
  findings.raise_if_any();
  return calibration;
}

void write_calibration(const Calibration& calibration, std::ostream& out) {
  std::string text;
  MemberWriter root{text};
  root.text("format", std::string{kFormat});
  root.text("name", calibration.name);
  root.text("created", calibration.created);
  root.tool(calibration.tool);
  root.host(calibration.host);
  append_rows(text, "devices", calibration.devices);
  append_rows(text, "ops", calibration.ops);
  append_rows(text, "fits", calibration.fits);
  append_rows(text, "efficiencies", calibration.efficiencies);
  append_rows(text, "links", calibration.links);
  append_rows(text, "co_run", calibration.co_run);
  out << text << "}\n";
}

}  // namespace trainyard
