#include "trainyard/io/formats/calibration_file.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>
#include <string>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/formats/profile_file.hpp"

using namespace trainyard;

namespace {

std::string seed(const std::string& name) {
  return test::read_text(test::source_dir() / "test/fuzz/seeds" / name / "bench.json");
}

/// The codes of the findings, each with its line.
template <class Parse>
std::string findings_of(const Parse& parse, const std::string& text) {
  std::string codes;
  for (const Finding& finding : test::findings_of([&] { parse(text, "file.json"); })) {
    if (!codes.empty()) codes += ", ";
    codes += finding.code + ":" + std::to_string(finding.at.line);
  }
  return codes;
}

std::string calibration_findings(const std::string& fields) {
  return findings_of(parse_calibration, "{\"format\": \"trainyard-calibration/1\",\n" + fields + "}");
}
std::string profile_findings(const std::string& fields) {
  return findings_of(parse_profile,
                     "{\"format\": \"trainyard-profile/1\", \"devices\": [{\"name\": \"a\"}],\n" + fields + "}");
}

}  // namespace

TEST_CASE("a calibration is written as it was read") {
  const Calibration calibration = parse_calibration(seed("calibration"), "bench.json");
  CHECK(calibration.ops[0].drop_reasons.at("context-switch") == 2);
  CHECK(calibration.ops[1].median == calibration.ops[1].mean);  // the median is left out in the file
  CHECK(calibration.links[0].quality.max_relative == 0.03);
  CHECK(calibration.interference.at(0).sensitivity == 1.1);
  std::ostringstream out;
  write_calibration(calibration, out);
  CHECK(parse_calibration(out.str(), "again") == calibration);
}

TEST_CASE("a profile is written as it was read") {
  const Profile profile = parse_profile(seed("profile"), "bench.json");
  CHECK(profile.ops[0].samples.kept.size() == 3);
  CHECK(profile.ops[0].samples.dropped[0].reason == "context-switch");
  CHECK(profile.links[0].sizes[1].bytes == Bytes{1'048'576});
  CHECK(profile.ops[1].copied.value == 2.5e10);
  std::ostringstream out;
  write_profile(profile, out);
  CHECK(parse_profile(out.str(), "again") == profile);
}

TEST_CASE("what is wrong with a calibration is said with its place") {
  CHECK(calibration_findings("\"ops\": [{\"device_kind\": \"k\", \"signature\": \"s\"}]") == "missing-key:2");
  CHECK(calibration_findings("\"ops\": [{\"device_kind\": \"k\", \"mean_ns\": 1}]") == "missing-key:2");
  CHECK(calibration_findings("\"ops\": [{\"device_kind\": \"k\", \"op\": \"o\", \"mean_ns\": -1}]") ==
        "negative-time:2");
  CHECK(calibration_findings("\"efficiencies\": [{\"device_kind\": \"k\", \"type\": \"t\", \"compute\": 1.5,\n"
                             "\"memory\": 0}]") == "efficiency:2, efficiency:3");
  CHECK(calibration_findings("\"links\": [{\"from\": \"a\", \"to\": \"b\",\n\"segments\": []}]") == "segments:3");
  const std::string line = "\"latency_ns\": 1, \"ns_per_byte\": 1}";
  CHECK(calibration_findings("\"links\": [{\"from\": \"a\", \"to\": \"b\", \"segments\": [\n{\"from_bytes\": 0, "
                             "\"to_bytes\": 9, " +
                             line + ",\n{\"from_bytes\": 9, \"to_bytes\": 10, " + line + "]}]") == "segments:4");
  CHECK(calibration_findings("\"co_run\": [{\"device_kind\": \"k\", \"type\": \"t\", \"factor\": 0}]") ==
        "not-positive:2");
  CHECK(calibration_findings("\"interference\": [{\"device_kind\": \"k\", \"type\": \"t\", \"sensitivity\": -1}]") ==
        "not-positive:2");
  CHECK(calibration_findings("\"interference\": [{\"device_kind\": \"k\", \"type\": \"t\"}]") == "missing-key:2");
  const std::string fit = R"({"device_kind": "k", "type": "t", "fixed_ns": 1, "ns_per_flop": 0, "ns_per_byte": 0, )";
  CHECK(calibration_findings("\"fits\": [" + fit + "\"flops_range\": [10,\n1], \"bytes_range\": [1, 1]}]") == "type:2");
  const std::string good = fit + R"("flops_range": [1, 1], "bytes_range": [1, 1]})";
  CHECK(calibration_findings("\"fits\": [" + good + ",\n" + good + "]") == "duplicate-name:3");
  const std::string op = R"({"device_kind": "k", "op": "o", "graph": "g", "mean_ns": 1)";
  CHECK(calibration_findings("\"ops\": [" + op + "},\n" + op + ", \"signature\": \"s\"},\n" + op + "}]") ==
        "duplicate-name:4");
  CHECK_THROWS_WITH_AS(
      parse_calibration("{\"format\": \"trainyard-calibration/1\", \"ops\": [" + op + ", \"kept\": 1.5}]}", "c.json"),
      "\"kept\" must be a whole number, got 1.5", InputError);
  CHECK(calibration_findings("\"device\": []") == "unknown-key:2");
  CHECK(findings_of(parse_calibration, seed("profile")) == "format:1");
}

TEST_CASE("what is wrong with a profile is said with its place") {
  CHECK(profile_findings("\"ops\": [{\"op\": \"o\", \"device\": \"b\", \"samples_ns\": []}]") == "unknown-device:2");
  CHECK(profile_findings("\"ops\": [{\"op\": \"o\", \"device\": \"a\"}]") == "missing-key:2");
  CHECK(profile_findings("\"ops\": [{\"op\": \"o\", \"device\": \"a\", \"mode\": \"warm\", \"samples_ns\": [-1]}]") ==
        "unknown-word:2, negative-time:2");
  CHECK(profile_findings("\"links\": [{\"from\": \"host\", \"to\": \"a\", \"sizes\": []}]") == "");
  CHECK(profile_findings("\"overheads\": [{\"device\": \"a\", \"what\": \"lunch\", \"samples_ns\": []}]") ==
        "unknown-word:2");
}

TEST_CASE("what no reader would take of a calibration or a profile is not written") {
  const auto refused = [](const auto& write) {
    std::ostringstream out;
    const std::string code = test::code_of([&] { write(out); });
    return out.str() + code;
  };
  const auto code = [&](const Calibration& calibration) {
    return refused([&](std::ostream& out) { write_calibration(calibration, out); });
  };
  CHECK(code({.ops = {{.device_kind = "k", .op = "o", .mean = Nanoseconds{-1}}}}) == "negative-time");
  CHECK(code({.interference = {{.device_kind = "k", .type = "t", .sensitivity = std::nan("")}}}) == "range");
  CHECK(code({.links = {{.from = "a", .to = "b"}}}) == "segments");
  CHECK(code({.collectives = {CollectiveTable{}}}) == "collective");
  Profile profile;
  profile.devices.emplace_back().name = "a";
  profile.ops.emplace_back().device = "a";
  CHECK(refused([&](std::ostream& out) { write_profile(profile, out); }) == "missing-key");
}
