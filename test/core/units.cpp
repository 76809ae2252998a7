#include "trainyard/core/units.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <clocale>
#include <cmath>
#include <sstream>
#include <string>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"

using namespace trainyard;
using test::contains;

namespace {

template <class Parse>
Finding rejected(Parse parse, const std::string& text) {
  return test::finding_of([&] { parse(text); });
}

}  // namespace

TEST_CASE("GB is 10^9 bytes and GiB is 2^30") {
  CHECK(parse_bytes("0 B") == Bytes{0});
  CHECK(parse_bytes("12 B") == Bytes{12});
  CHECK(parse_bytes("25.6MB") == Bytes{25'600'000});
  CHECK(parse_bytes("1 kB") == Bytes{1000});
  CHECK(parse_bytes("1 KB") == Bytes{1000});
  CHECK(parse_bytes("1 KiB") == Bytes{1024});
  CHECK(parse_bytes("80 GB") == Bytes{80'000'000'000});
  CHECK(parse_bytes("16 GiB") == Bytes{17'179'869'184});      // 16 x 2^30
  CHECK(parse_bytes("1.5 TiB") == Bytes{1'649'267'441'664});  // 1.5 x 2^40
  CHECK(parse_bytes("2 TB") == Bytes{2'000'000'000'000});
  CHECK(parse_bytes("1e3 MB") == Bytes{1'000'000'000});
  CHECK(parse_bytes("1e+3 MB") == Bytes{1'000'000'000});
  CHECK(parse_bytes("5e-1 kB") == Bytes{500});
}

TEST_CASE("sizes and times come out whole: the nearest one, halves up") {
  CHECK(parse_bytes("0.1 KiB") == Bytes{102});                  // 102.4
  CHECK(parse_bytes("1.0005 kB") == Bytes{1001});               // 1000.5
  CHECK(parse_time("2 min") == Nanoseconds{120'000'000'000});   // 2 x 60 s
  CHECK(parse_time("1.5h") == Nanoseconds{5'400'000'000'000});  // 1.5 x 3,600 s
  CHECK(parse_time("0.5 ns") == Nanoseconds{1});
  CHECK(parse_time("0.49 ns") == Nanoseconds{0});
  CHECK(parse_time("1e-40 s") == Nanoseconds{0});
}

TEST_CASE("microseconds may be written with either mu") {
  CHECK(parse_time("5 us") == Nanoseconds{5000});
  CHECK(parse_time("5 \u00b5s") == Nanoseconds{5000});
  CHECK(parse_time("5\u03bcs") == Nanoseconds{5000});
  CHECK(parse_time("2.5ms") == Nanoseconds{2'500'000});
  CHECK(parse_time("41.8 s") == Nanoseconds{41'800'000'000});
  CHECK(parse_time("7 ns") == Nanoseconds{7});
}

TEST_CASE("bandwidths that are whole bytes per second come out exactly") {
  CHECK(parse_bandwidth("12.5 GB/s").value == 12'500'000'000.0);
  CHECK(parse_bandwidth("11.3 GB/s").value == 11'300'000'000.0);  // 11.3 x 1e9 in doubles is 11300000000.000002
  CHECK(parse_bandwidth("0.000000001 GB/s").value == 1.0);
  CHECK(parse_bandwidth("100 Gbit/s").value == 12'500'000'000.0);
  CHECK(parse_bandwidth("1 GiB/s").value == 1'073'741'824.0);
  CHECK(parse_bandwidth("10 Mbit/s").value == 1'250'000.0);
  CHECK(parse_bandwidth("1 bit/s").value == 0.125);
  CHECK(parse_bandwidth("3.35 TB/s").value == 3'350'000'000'000.0);
  for (int tenths = 1; tenths < 20'000; tenths += 7) {
    const auto text = std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GB/s";
    CHECK(parse_bandwidth(text).value == tenths * 1e8);
  }
}

TEST_CASE("FLOP rates go from FLOP/s to PFLOP/s") {
  CHECK(parse_flops_rate("15.7 TFLOP/s").value == 15.7e12);
  CHECK(parse_flops_rate("1 PFLOP/s").value == 1e15);
  CHECK(parse_flops_rate("250 MFLOP/s").value == 250e6);
  CHECK(parse_flops_rate("0 FLOP/s").value == 0);
}

TEST_CASE("a bare number is an error that says what to write") {
  const Finding finding = rejected([](auto& text) { parse_bandwidth(text); }, "450");
  CHECK(finding.code == "unit");
  CHECK(finding.message == "bandwidth '450' has no unit; expected a number and a unit, as in '450 GB/s'");
  CHECK(contains(finding.help, "GB/s"));
  CHECK(contains(finding.help, "Gbit/s"));
}

TEST_CASE("what is not a quantity is refused") {
  for (const char* text : {"",
                           " ",
                           "-5 GB",
                           "+5 GB",
                           "nan GB",
                           "inf GB",
                           "GB",
                           ".5 GB",
                           "5. GB",
                           "1e GB",
                           "1e+-5 GB",
                           "1e+ GB",
                           "1e++5 GB",
                           "0x10 GB",
                           "5 GB extra",
                           "5 GB ",
                           " 5 GB",
                           "5 G B",
                           "5 GBB",
                           "1,5 GB",
                           "5GB/s",
                           "1e99 B",
                           "1e999999999999 B",
                           "4611686018427387905 B",
                           "5\tGB",
                           "\xff",
                           "5 \xff"}) {
    CAPTURE(text);
    CHECK(rejected([](auto& t) { parse_bytes(t); }, text).code == "unit");
  }
  CHECK(rejected([](auto& t) { parse_bytes(t); }, std::string("5 GB\0", 5)).code == "unit");
  CHECK(parse_bytes("4611686018427387904 B") == Bytes{std::int64_t{1} << 62});
  CHECK(rejected([](auto& t) { parse_bandwidth(t); }, "1e400 GB/s").code == "unit");
  CHECK(parse_bandwidth("1e-400 GB/s").value == 0);
}

TEST_CASE("a slip of the unit says which one was meant") {
  const auto bandwidth = [](auto& t) { parse_bandwidth(t); };
  CHECK(contains(rejected(bandwidth, "100 Gbps").help, "did you mean 'Gbit/s'?"));
  CHECK(contains(rejected(bandwidth, "100 GBps").help, "did you mean 'GB/s'?"));
  CHECK(contains(rejected(bandwidth, "100 GB").help, "did you mean 'GB/s'?"));
  CHECK(contains(rejected(bandwidth, "100 gb/s").help, "did you mean 'GB/s'?"));
  CHECK(contains(rejected([](auto& t) { parse_bytes(t); }, "80 gib").help, "did you mean 'GiB'?"));
  CHECK(contains(rejected([](auto& t) { parse_time(t); }, "5 sec").help, "did you mean 's'?"));
  CHECK(contains(rejected([](auto& t) { parse_flops_rate(t); }, "15.7 TFLOPS").help, "did you mean 'TFLOP/s'?"));
  CHECK(contains(rejected([](auto& t) { parse_bytes(t); }, "1,5 GB").help, "a point"));
}

TEST_CASE("people see three or four digits") {
  CHECK(format_time(Nanoseconds{0}) == "0 ns");
  CHECK(format_time(Nanoseconds{999}) == "999 ns");
  CHECK(format_time(Nanoseconds{1000}) == "1.00 us");
  CHECK(format_time(Nanoseconds{41'800'000}) == "41.8 ms");
  CHECK(format_time(Nanoseconds{128'300'000}) == "128.3 ms");
  CHECK(format_time(Nanoseconds{999'960'000}) == "1.00 s");  // not "1000.0 ms"
  CHECK(format_time(Nanoseconds{9'996'000}) == "10.0 ms");   // not "10.00 ms"
  CHECK(format_time(Nanoseconds{-1500}) == "-1.50 us");
  CHECK(format_bytes(Bytes{31'200'000'000}) == "31.2 GB");
  CHECK(format_bytes(Bytes{512}) == "512 B");
  CHECK(format_rate(BytesPerSecond{50e9}) == "50.0 GB/s");
  CHECK(format_rate(FlopsPerSecond{15.7e12}) == "15.7 TFLOP/s");
  CHECK(format_rate(FlopsPerSecond{0}) == "0.00 FLOP/s");
}

TEST_CASE("the texts for files are the ones that a person would write") {
  CHECK(exact_bytes(Bytes{17'179'869'184}) == "16 GiB");
  CHECK(exact_bytes(Bytes{80'000'000'000}) == "80 GB");
  CHECK(exact_bytes(Bytes{12'345}) == "12345 B");
  CHECK(exact_bytes(Bytes{0}) == "0 B");
  CHECK(exact_time(Nanoseconds{5000}) == "5 us");
  CHECK(exact_time(Nanoseconds{1'234'567}) == "1234567 ns");
  CHECK(exact_rate(BytesPerSecond{12.5e9}) == "12.5 GB/s");
  CHECK(exact_rate(BytesPerSecond{50e9}) == "50 GB/s");
  CHECK(exact_rate(BytesPerSecond{3}) == "3 B/s");
  CHECK(exact_rate(FlopsPerSecond{15.7e12}) == "15.7 TFLOP/s");
}

TEST_CASE("the texts for files parse back to the same value") {
  Random random{11};
  for (int i = 0; i < 2000; ++i) {
    const auto bits = static_cast<int>(random.below(62));
    const auto whole = static_cast<std::int64_t>(random.below(std::uint64_t{1} << bits));
    CHECK(parse_bytes(exact_bytes(Bytes{whole})) == Bytes{whole});
    CHECK(parse_time(exact_time(Nanoseconds{whole})) == Nanoseconds{whole});
    const double real = random.uniform() * static_cast<double>(whole);
    CHECK(parse_bandwidth(exact_rate(BytesPerSecond{real})).value == real);
    CHECK(parse_flops_rate(exact_rate(FlopsPerSecond{real})).value == real);
  }
  CHECK(parse_bandwidth(exact_rate(BytesPerSecond{1e-300})).value == 1e-300);
}

TEST_CASE("the locale plays no part") {
  const char* set = std::setlocale(LC_ALL, "de_DE.UTF-8");  // decimal comma, if the locale is installed
  CHECK(parse_bandwidth("12.5 GB/s").value == 12.5e9);
  CHECK(exact_rate(BytesPerSecond{12.5e9}) == "12.5 GB/s");
  if (set) std::setlocale(LC_ALL, "C");
}

TEST_CASE("streams and fmt print quantities exactly, in the width asked for; like quantities have a ratio") {
  std::ostringstream out;
  out << Nanoseconds{1'234'567} << ", " << Bytes{16LL << 30} << ", " << BytesPerSecond{12.5e9} << ", "
      << FlopsPerSecond{15.7e12} << ", " << Flops{2.5e9};
  CHECK(out.str() == "1234567 ns, 16 GiB, 12.5 GB/s, 15.7 TFLOP/s, 2500000000 FLOP");
  CHECK(fmt::format("{:>7}|{:<6}|{}", Nanoseconds{5000}, Bytes{3}, BytesPerSecond{50e9}) == "   5 us|3 B   |50 GB/s");
  // 2^62, about 4.61e18, is the largest rate that a file can have.
  CHECK(fmt::format("{}", FlopsPerSecond{0x1p62}) == "4611686.018427388 TFLOP/s");
  CHECK(fmt::format("{}, {}, {}", FlopsPerSecond{5e18}, BytesPerSecond{-2.5}, BytesPerSecond{std::nan("")}) ==
        "5e+18 FLOP/s, -2.5 B/s, nan B/s");
  CHECK(rejected([](auto) { exact_rate(FlopsPerSecond{5e18}); }, "").code == "unit");
  CHECK(Nanoseconds{3} / Nanoseconds{4} == 0.75);
  CHECK(FlopsPerSecond{30e12} / FlopsPerSecond{15e12} == 2.0);
}
