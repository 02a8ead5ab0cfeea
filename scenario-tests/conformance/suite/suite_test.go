// Package suite runs the conformance suite of Gateway API with the flags of its command line.
package suite

import (
	"fmt"
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
	"sigs.k8s.io/gateway-api/conformance/tests"
	confsuite "sigs.k8s.io/gateway-api/conformance/utils/suite"
)

// TestConformance is the whole suite.
func TestConformance(t *testing.T) {
	conformance.RunConformance(t)
}

// TestProfiles prints the profiles of each test: those with all features that the test needs.
func TestProfiles(t *testing.T) {
	profiles := []confsuite.ConformanceProfile{
		confsuite.GatewayHTTPConformanceProfile,
		confsuite.GatewayGRPCConformanceProfile,
		confsuite.GatewayTLSConformanceProfile,
		confsuite.GatewayTCPConformanceProfile,
		confsuite.GatewayUDPConformanceProfile,
	}
	for _, profile := range profiles {
		features := profile.CoreFeatures.Union(profile.ExtendedFeatures)
		for _, test := range tests.ConformanceTests {
			if features.HasAll(test.Features...) {
				fmt.Printf("PROFILE %s %s\n", profile.Name, test.ShortName)
			}
		}
	}
}
