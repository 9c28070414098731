module bireme.io/tools/testcluster/pause

go 1.25.0
